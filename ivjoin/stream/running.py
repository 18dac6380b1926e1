"""A join of two inputs under way."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from ivjoin.files.atomic import first_line
from ivjoin.metrics import JoinMetrics
from ivjoin.operator.explaining.explain import explain_plan
from ivjoin.operator.explaining.picture import Explanation
from ivjoin.operator.operator import SymmetricHashJoin
from ivjoin.stream.after.explained import explain_inputs
from ivjoin.stream.prepared import PreparedJoin
from ivjoin.stream.sort.sorting import Arranged
from ivjoin.stream.sources.gathering import Pieces
from ivjoin.stream.sources.idle import joined_idly
from ivjoin.stream.tables.table_join import TableJoin
from ivjoin.stream.threads.memory import to_the_end
from ivjoin.stream.threads.slices import SlicedJoin

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value
    from ivjoin.files.overwriting import InputFiles
    from ivjoin.stream.after.lockstep import Lockstep
    from ivjoin.stream.tables.lookup_parts import LookupParts
    from ivjoin.stream.tables.table_lookup import TableLookup

Pusher: TypeAlias = "SymmetricHashJoin | SlicedJoin | Lockstep"
Change = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

__all__ = ["CLOSED", "ENDED", "Change", "Run", "RunOfTwo", "stopped_by"]

CLOSED = "this stream was closed and gives nothing more"
ENDED = "the output was read to its end, and can be read only once: store what you read, or join again"


def stopped_by(error: BaseException) -> str:
    """Return why a stream that stopped with an error gives nothing more."""
    return f"this stream stopped with an error and gives nothing more: {first_line(error)}"


class Run:
    """A join under way: it reads the inputs and gives the output.

    It does not refer to the stream or its generator. So a stream that the caller drops is freed at once, with its
    threads, files and rows. ``over`` is why nothing more can come, and ``broken`` whether an error is the reason.
    ``schema`` describes the batches before ``change``. ``read_from`` are the files of each input, if known.
    """

    over: str | None = None
    broken = False
    change: Change | None = None  # of the output
    skipped: tuple[int, int] | None = None  # row groups of each side
    sorting = ""  # what was done to inputs without an order
    operator: Any  # that joins two inputs
    schema: pa.Schema
    read_from: Sequence[InputFiles | None]

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the output; once."""
        try:
            yield from self.output() if self.change is None else self.change(self.output())
            self.over = ENDED
        except GeneratorExit:
            self.over = self.over or CLOSED
            raise
        except BaseException as e:
            self.over, self.broken = stopped_by(e), True
            raise
        finally:
            self.release()

    def output(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def release(self) -> None:
        """Stop threads and release the inputs.

        This waits for no thread and takes no lock, because the cyclic collector may call it from any thread.
        """
        raise NotImplementedError

    @property
    def metrics(self) -> Any:
        raise NotImplementedError

    @property
    def question(self) -> str:
        """Return the join in words."""
        raise NotImplementedError

    def explain(self) -> Explanation:
        raise NotImplementedError

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        raise NotImplementedError


class RunOfTwo(Run):
    """A join of two inputs under way."""

    def __init__(self, join: PreparedJoin) -> None:
        self._join = join
        self.schema, self.read_from, self.skipped = join.chosen.schema, join.read_from, join.skipped
        self._pusher = join.operator(join.plan)
        self.operator: Pusher | TableJoin | TableLookup | LookupParts = self._pusher
        self._arranged: Arranged | None = None

    @property
    def metrics(self) -> JoinMetrics:
        return self.operator.metrics

    @property
    def question(self) -> str:
        plan = self._join.plan
        return f"{plan.how.name} join" + ("" if plan.condition is None else f" on {plan.condition}")

    def explain(self) -> Explanation:
        join, several = self._join, self._join.chosen.several
        if self._arranged is not None:
            text = explain_plan(self._arranged.plan, None, [self.sorting] if self.sorting else [])
        else:
            text = explain_inputs(join.plan, join.inputs, join.sorts)
        return text if several is None else text.with_line(several.said)

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        return self.operator.output_bounds()

    def release(self) -> None:
        if not isinstance(self.operator, SymmetricHashJoin):
            self.operator.close()
        self._join.end()
        if self._arranged is not None:
            self._arranged = replace(self._arranged, batches=(iter(()), iter(())), sweep=None, ready=(None, None))

    def output(self) -> Iterator[pa.RecordBatch]:
        return map(self._join.chosen.pick, to_the_end(self._joined()))

    def _joined(self) -> Iterator[pa.RecordBatch]:
        self._arranged, inputs = self._join.begin()
        self.sorting = self._arranged.said
        whole = self._join.in_slices(self._arranged)
        if whole is not None:
            self.operator = whole
            yield from whole.output()
            return
        if self._arranged.plan is not self._join.plan:
            arranged = self._arranged
            self._pusher = self._join.operator(arranged.plan, arranged.errors_first, arranged.copies)
            self.operator = self._pusher
        yield from self._pushed(self._pusher, inputs)

    def _pushed(self, op: Pusher, inputs: tuple[Pieces, Pieces]) -> Iterator[pa.RecordBatch]:
        """Push rows piece by piece, and yield the output."""
        assert self._arranged is not None
        names, first = ("left", "right"), self._arranged.first
        if self._arranged.sweep is not None:
            for p, piece in self._arranged.sweep.turns(self._join.sweep_rows(self._arranged.plan)):
                yield from op.finish(names[p]) if piece is None else op.push(names[p], piece)
            return
        if self._join.idle is not None and first is None and not isinstance(op, SlicedJoin):
            yield from joined_idly(op, inputs, self._join.idle)
            return
        open_ = [True, True]
        while open_[0] or open_[1]:
            if first is not None and open_[first]:
                p = first
            else:
                p = 0 if not open_[1] else 1 if not open_[0] else op.lagging(inputs[0].rows, inputs[1].rows)
            batch = inputs[p].next()
            if batch is None:
                open_[p] = False
                yield from op.finish(names[p])
            else:
                yield from op.push(names[p], batch)
