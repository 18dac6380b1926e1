"""Join two batches completely in one compiled call, without state.

If both inputs end, or a range of the axis is complete, the rows of that range are a *slice*. ``join_slice`` joins a
slice as ``push_batch`` joins a batch. Both share the code for reading, NULLs, guards, checks, the residual, join types
and output. Only the index differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import Node
from ivjoin.frontier.tracking import Frontier
from ivjoin.operator.intake import Intake, outside
from ivjoin.operator.match.kernel.keys import key_table, name_keys
from ivjoin.operator.match.kernel.sources import SideSources, side_sources
from ivjoin.operator.match.kernel.state import State
from ivjoin.operator.match.kernel.tables import OutputTable, join_fields, output_table
from ivjoin.operator.match.output import in_parts
from ivjoin.operator.match.residual import matching
from ivjoin.operator.match.values import prepare
from ivjoin.outer.batches import BatchBuilder, BatchRows
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.plan.layout import row_layouts
from ivjoin.plan.spec import SIDES
from ivjoin.shj import registers as at
from ivjoin.shj.arrow import take
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.kernels.pointers import release_struct
from ivjoin.shj.kernels.slices import slice_join, slice_keys
from ivjoin.shj.plain import in_few_batches, rows_at
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.keys import ByteKeys, KeyTable, WordKeys

__all__ = ["Part", "Whole"]

_MOST_PAIRS, _LEAST_PAIRS = 1 << 16, 1 << 10  # candidate pairs per step: most and least
_BEHIND = 8  # entries that the kernels may read beyond the last one


@dataclass(frozen=True, slots=True)
class Part:
    """One side of a slice, sorted by the axis. Other slices own the rows outside of ``start`` to ``end``."""

    batch: pa.RecordBatch
    start: int
    end: int


class _Half:
    """The state for one side of a slice. It has the attributes of an engine that ``values.prepare`` reads."""

    def __init__(self, whole: Whole, columns: int) -> None:
        self.plan, self.sources, self.index, self.intake = whole.plan, whole.sources, whole.index, whole.intake
        self.keys: KeyTable
        self.state = State(whole.plan.spec.batch_size, columns)

    def source_table(self, p: int) -> np.ndarray:
        return self.state["sources", p].view(at.SOURCE)

    def rekey(self) -> None:
        raise AssertionError("a key has an error that the check did not find")


class Whole:
    """Join slices of one plan one after the other. The scratch is reused for each slice.

    - :func:`why_pushed` must be empty for the plan.
    - Orders and bounds of the plan are ignored. The caller finds rows that break them.
    - The output has the order of the rows of side ``probe``.
    - Rows of the other side may be in several slices, unless their unmatched rows are emitted.
    - ``pairs`` limits the candidate pairs of a step and the rows of an output batch.
    """

    def __init__(self, plan: JoinPlan, probe: int, pairs: int | None = None) -> None:
        self.plan = plan = plan.own()
        self.probe = probe
        self._most_pairs = _MOST_PAIRS if pairs is None else pairs
        self.layouts = layouts = row_layouts(plan)
        self.index = layouts[0].index, layouts[1].index
        frontiers = Frontier([], {}), Frontier([], {})
        self.intake = Intake(plan, frontiers)
        self.builder = BatchBuilder(plan.schema, plan.fields, plan.spec.batch_size, plan.spec.timezone)
        output = output_table(plan)
        words = output.kinds is not None and output.kinds <= {at.WORDS}
        self._blocks = words and not _mixes(plan, probe, output)
        also = [plan.emitted(s) if self._blocks else set[int]() for s in (0, 1)]
        self.sources: list[SideSources] = [side_sources(plan, s, frontiers[s], also[s]) for s in (0, 1)]
        width = max(len(side.schema) for side in plan.sides)
        self._halves = [_Half(self, width) for _ in (0, 1)]
        self.states = self._halves[0].state, self._halves[1].state
        self.keys = key_table(plan, self.states[0].operator)
        for half in self._halves:
            half.keys = self.keys
        self._arrays: dict[str, np.ndarray] = {}
        self._words, self._fields = at.as_words(at.blank(at.SLICE, 1)), at.words_of(at.SLICE)
        for s, state in enumerate(self.states):
            self._tabulate(s, state)
        self._operators = np.array([state.at for state in self.states])
        self._set(
            probe=probe, key_kind=self.keys.kind, operators=address(self._operators), n_fields=len(output.fields),
            state=self._hold("state", 4, np.int64), used=self._hold("used", max(1, len(plan.kernel_terms)), np.int64),
        )
        self._rooms = -1, -1  # capacity of the scratch, in rows

    def _tabulate(self, s: int, state: State) -> None:
        plan, sources = self.plan, self.sources[s]
        state.put_side(s, join_fields(plan, s))
        terms = plan.tables[s].terms
        fields: dict[str, int] = {
            "n_bands": len(terms), "bands": address(terms), "n_axes": len(plan.sides[s].axes),
            "n_sources": len(sources.table), "n_columns": len(sources.columns),
            "sources": state.hold(("sources", s), at.as_words(sources.table)),
            "columns": state.hold(("columns", s), sources.columns),
        }
        if sources.words is not None:
            fields["key_words"] = state.hold(("key_words", s), sources.words)
        if sources.pieces is not None:
            fields |= {
                "packs": 1, "n_pieces": len(sources.pieces),
                "pieces": state.hold(("pieces", s), at.as_words(sources.pieces)),
            }
            state.set(key_sizes=state.hold("key_sizes", np.zeros(2 * len(plan.null_safe) + 1, dtype=np.int64)))
        state.set_side(s, **fields)
        output = output_table(plan)
        state.set(
            never=int(plan.never), blocks=int(self._blocks), fields=address(output.fields),
            n_fields=len(output.fields),
        )

    def _set(self, **fields: int) -> None:
        for name, value in fields.items():
            self._words[self._fields[name]] = value

    def _get(self, name: str) -> int:
        return self._words.item(self._fields[name])

    def _hold(self, name: str, n: int, dtype: type) -> int:
        made = self._arrays[name] = np.empty(n, dtype=dtype)
        return address(made)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self._arrays.values()) + sum(state.nbytes for state in self.states)

    def _make_room(self, n: int, m: int) -> None:
        """Reserve scratch for n probe rows and m build rows. These numbers alone determine how the output is cut."""
        self._set(room=self._pairs_at_once(n))
        if n <= self._rooms[0] and m <= self._rooms[1]:
            return
        n, m = max(n + n // 8, self._rooms[0]), max(m + m // 8, self._rooms[1])
        self._rooms = n, m
        room = self._pairs_at_once(n)
        both = max(n, m) + _BEHIND
        sizes = dict.fromkeys(("first", "last", "spare", "probe_ids"), n + _BEHIND)
        sizes |= dict.fromkeys(("build_ids", "rows"), m + _BEHIND) | dict.fromkeys(("at", "to"), room + both + 1)
        sizes |= dict.fromkeys(("out_probe", "out_build"), room + _BEHIND)
        sizes["ends"] = 2 * max(slice_keys.most_ids(m), n + m) + _BEHIND
        sizes["table"] = max(64, 1 << (2 * max(1, m) - 1).bit_length())
        sizes["clean"] = min(room + both + 1, self._most_pairs)
        self._set(
            block_rows=self._most_pairs, turned_by=both, words=self._hold("words", m + 1, np.int64),
            turned=self._hold("turned", 2 * both, np.int64),
            **{name: self._hold(name, size, np.int32) for name, size in sizes.items()},
        )

    def _pairs_at_once(self, n: int) -> int:
        return min(self._most_pairs, max(_LEAST_PAIRS, 4 * n))

    def strays(
        self, s: int, batches: Sequence[pa.RecordBatch], spans: Mapping[Node, tuple[int, int]] | None = None
    ) -> bool:
        """Return whether a row of side s has an error or breaks a guard. ``spans``: known least and greatest values."""
        spans, guards = spans or {}, []
        for node, low, high in self.plan.sides[s].guards:
            if node not in spans:
                guards.append((node, low, high))
            elif not low <= spans[node][0] <= spans[node][1] <= high:
                return True
        nodes = list(dict.fromkeys([*self.sources[s].roots, *(n for n, _, _ in guards)]))
        for whole in batches if nodes else ():
            batch = self._plain(s, whole)
            found = evaluate(nodes, lambda _, name: batch.column(self.index[s][name]), batch.num_rows)  # noqa: B023
            values = dict(zip(nodes, found, strict=True))
            if any(v.error is not None and v.error.any() for v in found):
                return True
            if any(outside(values[n], low, high) is not None for n, low, high in guards):
                return True
        return False

    def join(self, left: Part, right: Part) -> Iterator[pa.RecordBatch]:
        """Yield the output of a slice. An error in the condition of a pair raises an EvaluationError."""
        parts = left, right
        batches = [self._plain(s, part.batch) for s, part in enumerate(parts)]
        probe, build = parts[self.probe], parts[1 - self.probe]
        self._make_room(probe.batch.num_rows, build.batch.num_rows)
        self._set(
            phase=at.BEGIN, probe_from=probe.start, probe_to=probe.end, build_from=build.start, build_to=build.end,
        )
        if isinstance(self.keys, ByteKeys | WordKeys):
            # Reserve all capacity before the first id, because a table that grows later may reuse ids.
            self.keys.clear(Account())
            self.keys.reserve(sum(batch.num_rows for batch in batches))
            self.keys.point()
        most = max(s.rows for s in self.sources)
        for s, (half, batch) in enumerate(zip(self._halves, batches, strict=True)):
            half.state.row_room(max(1, batch.num_rows), most)
            half.state.set(prepared=0)
            if self.sources[s].roots:
                prepare(half, s, batch)  # type: ignore[arg-type]
            batch._export_to_c(half.state.in_struct)
        try:
            yield from self._joined(batches)
        finally:
            for state in self.states:
                release_struct(state.in_struct)

    def _joined(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        record = address(self._words)
        while status := slice_join.join_slice(record):
            if status & at.OUTPUT:
                yield pa.RecordBatch._import_from_c(self.states[0].out_struct, self.plan.schema)
            elif status & at.GATHER:
                yield from self._gathered(batches)
            elif status & at.DECIDE:
                self._decide(batches)
            elif status & at.KEYS:
                self._set(n_ids=name_keys(self, batches))
            elif status & at.FULL:
                raise IvjoinError("no memory for an output batch")
            else:
                raise AssertionError("a row lies outside the plan's guards, and the check did not find it")

    def _plain(self, s: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self.layouts[s].schema is None else self.layouts[s].plain(batch)

    def _decide(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Reduce the candidate pairs to the matches."""
        n = self._get("n_pairs")
        rows, places = self._arrays["out_probe"][:n], self._arrays["out_build"][:n]

        def columns(here: np.ndarray, there: np.ndarray) -> Callable[[str, str], pa.Array]:
            def column(side: str, name: str) -> pa.Array:
                s = SIDES.index(side)
                i = self.index[s][name]
                return take(batches[s].column(i), here if s == self.probe else there, self.layouts[s].widths[i])

            return column

        checked = len(self.plan.checks[self.probe]) > 0
        rows, places = matching(self.plan.separation.residual, columns, rows, places, checked)
        n = len(rows)
        self._arrays["out_probe"][:n], self._arrays["out_build"][:n] = rows, places
        self._set(n_pairs=n)

    def _gathered(self, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield output batches with the rows that the kernel has listed."""
        one, other = ("at", "to") if self._get("listed") else ("out_probe", "out_build")
        cursor = self._get("cursor")
        cut = slice(cursor, min(self._get("total"), cursor + self._most_pairs))
        rows, places = self._arrays[one][cut], self._arrays[other][cut]
        self._set(cursor=cut.stop)
        which, p = self._get("which"), self.probe
        if which in (0, 1):

            def lone(cut: slice) -> pa.RecordBatch:
                alone = BatchRows(batches[which], rows[cut], self.layouts[which].widths)
                return self.builder.batch(*((alone, None) if which == 0 else (None, alone)))

            yield from in_parts(lone, 0, len(rows))
            return
        merged = p == 1 and any(f.left is not None and f.right is not None for f in self.plan.fields)
        if merged and places.min(initial=0) < 0:
            # A merged key column has the right side's value where the left side has no row.
            there = places >= 0
            for some in in_parts(lambda c: self._merged(batches, rows[c], places[c], there[c]), 0, len(rows)):
                yield from some
            return
        index = (rows, places) if p == 0 else (places, rows)

        def paired(cut: slice) -> pa.RecordBatch:
            left, right = (BatchRows(batches[s], index[s][cut], self.layouts[s].widths) for s in (0, 1))
            return self.builder.batch(left, right)

        yield from in_parts(paired, 0, len(rows))

    def _merged(
        self, batches: Sequence[pa.RecordBatch], rows: np.ndarray, places: np.ndarray, there: np.ndarray
    ) -> list[pa.RecordBatch]:
        """Return right rows with their left rows, if they have one, in the order of the right rows."""
        widths = self.layouts[0].widths, self.layouts[1].widths
        parts = [
            self.builder.batch(*(
                BatchRows(batches[s], index[there], widths[s]) for s, index in enumerate((places, rows))
            )),
            self.builder.batch(None, BatchRows(batches[1], rows[~there], widths[1])),
        ]
        order = np.empty(len(rows), dtype=np.int64)
        order[np.concatenate((np.flatnonzero(there), np.flatnonzero(~there)))] = np.arange(len(rows))
        one = in_few_batches([part for part in parts if part.num_rows])
        return [rows_at(one[0], order)] if len(one) == 1 else one


def _mixes(plan: JoinPlan, probe: int, output: OutputTable) -> bool:
    """Return whether a key column has left values for pairs, and right values for unmatched rows."""
    fields = output.fields
    both = (fields["left"] >= 0) & (fields["right"] >= 0) & (fields["alike"] == 0)
    return probe == 1 and plan.how.keep[1] and bool(both.any())
