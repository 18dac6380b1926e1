"""Compute bounds for each step from the frontiers and stored rows of all inputs, and pass them to the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivjoin.expr.nodes import Node, walk
from ivjoin.frontier.order import ordinal_range
from ivjoin.frontier.tracking import Frontier
from ivjoin.multi.inputs import Input
from ivjoin.multi.reach import Box, Reach, Span, columns_read, hull, united
from ivjoin.multi.shape.steps import Step, local, wide
from ivjoin.multi.spec import MultiSpec
from ivjoin.operator.match.step_join import StepJoin
from ivjoin.plan.cache import plan_of
from ivjoin.plan.derived.certain import domain_of
from ivjoin.plan.spec import SIDES

__all__ = ["Across"]

# Bounds across all inputs take a few hundred microseconds. They are computed once in so many rows, or when half of the
# state is new.
_LOOK_EVERY = 256
_LOOK_AT_LEAST = 16_384
# Stored rows are scanned for their least and greatest values after as many new rows.
_SPANS_EVERY = 16_384
_IN_ORDER = 16  # times less often if each input has an order: frontiers give the same bounds, except for gaps
# Stored rows are scanned by bounds of inputs outside their step once in so many rows, or for this part of the state.
_EVICT_EVERY, _EVICT_PART = 4096, 8
_MANY_EVICTED = 64  # one row in so many: the other rows may then give narrower bounds
_FEW = 4096  # with fewer stored rows, evicting some of them costs more than storing them
_FORCED = 16  # calls of ``advance`` without rows between them


class Across:
    """Update the operators of the steps with the bounds of all inputs."""

    def __init__(
        self, spec: MultiSpec, steps: Sequence[Step], inputs: Mapping[str, Input], operators: Sequence[StepJoin]
    ) -> None:
        self._spec, self._steps, self._inputs, self._operators = spec, steps, inputs, operators
        self.closed = [[False, False] for _ in steps]  # by step: whether a side cannot have a later row that matters
        # By step and side: the expressions whose bounds it uses, and the last bounds.
        self._passed: dict[tuple[int, int], dict[Node, Span]] = {}
        self._wanted = {(i, p): self._wanted_of(i, p) for i in range(len(self._steps)) for p in (0, 1)}
        # A side that matches no stored rows gives no bounds.
        self._wanted = {(i, p): nodes for (i, p), nodes in self._wanted.items() if self._steps[i].sides[1 - p].keeps}
        # Columns of the rows that a side's later rows match, if inputs outside of the step may bound them.
        self._kept = {(i, p): found for i, p in self._wanted if (found := self._through(i, p))}
        self._reach = Reach(spec, (n for nodes in (*self._wanted.values(), *self._kept.values()) for n in nodes))
        self._names = [frozenset(f.name for f in step.spec.schemas[0]) for step in self._steps]
        self._local: dict[tuple[int, Node], Node] = {}
        self.hulls: dict[str, Box] = {}  # the last known domains of each input's rows, stored and future
        self._hull_version = 0
        self._boxes: dict[str, Box | None] = {}  # of future rows, by the input that is awaited
        self._seen: dict[str, tuple[int, bool, int]] = {}
        if spec.options.on_late != "join":  # else a stored row may be outside its input's bounds
            for a, i in self._inputs.items():
                own = Frontier([], i.frontier.bounds, spec.certain[0])
                self.hulls[a] = {n: domain_of(n, v) for n, v in own.intervals.items()}
        self._since_look = self._since_spans = self._since_evict = 0
        self._pending = False  # whether a forced computation waits for rows

    def _wanted_of(self, i: int, p: int) -> list[Node]:
        """Return the expressions of a step's side, over wide names, whose bounds prune the other side.

        These are columns, because a bound needs an expression without errors, and declared orders, which raised none.
        """
        step, plan = self._steps[i], plan_of(self._steps[i].spec)
        mine = [t.left if p == 0 else t.right for t in plan.terms]
        mine += [c for c in columns_read(plan.separation.residual) if c.params[0] == SIDES[p]]
        found = [wide(n) for n in mine]
        declared = [
            n for a in step.sides[p].aliases for f in (self._inputs[a].frontier,) for n in (*f.intervals, *f.bounds)
        ]
        inside = set(walk(*found))
        return list(dict.fromkeys([*columns_read(found), *(n for n in declared if n in inside)]))

    def _through(self, i: int, p: int) -> list[Node]:
        """Return the columns of rows that match side p in conjuncts with inputs outside of the step."""
        met = self._steps[i].sides[1 - p].aliases
        here = {*met, *self._steps[i].sides[p].aliases}
        names = {f.name for a in met for f in self._spec.wide(a)}
        beyond = [x.node for x in self._spec.parts if not x.aliases.isdisjoint(met) and not x.aliases <= here]
        return [c for c in columns_read(beyond) if c.params[1] in names]

    def prepare(self) -> None:
        """Declare all possible bounds to each step at the start; a later declaration would scan all its rows."""
        for (i, p), nodes in self._wanted.items():
            if not self.closed[i][p]:
                spans = {self._locally(i, n): ordinal_range(n.type) for n in nodes}
                for _ in self._operators[i].narrow(SIDES[p], spans):
                    raise AssertionError("an inner join emitted rows without a bound")

    def _locally(self, i: int, n: Node) -> Node:
        found = self._local.get((i, n))
        if found is None:
            found = self._local[i, n] = local(n, self._names[i])
        return found

    def came(self, rows: int) -> None:
        self._since_look += rows
        self._since_spans += rows
        self._since_evict += rows

    def prune(self, stored: int, force: bool, soon: bool = True) -> None:
        """Compute bounds across the inputs, and pass them to each step.

        ``stored`` is the number of stored rows. Without ``force``, the computation waits until it is worth its cost.
        With few stored rows and without ``soon``, a forced computation waits for the next rows.
        """
        if all(i.ended for i in self._inputs.values()):
            self._pass_bounds()
            return
        if force and not soon and stored <= _FEW:
            self._pending = True
            return
        if not force and self._since_look < max(_LOOK_EVERY, min(_LOOK_AT_LEAST, stored // 2)):
            return
        force, self._pending = force or self._pending, False
        if force:
            self._since_spans += stored // _FORCED + 1
        # A scan of the state is worth its cost if much of it is new, or if it is small.
        every = _SPANS_EVERY if self._waits else _SPANS_EVERY * _IN_ORDER
        deep = self._since_spans >= max(every, stored) or (force and stored <= _SPANS_EVERY)
        self._since_look = 0
        due = self._since_evict >= max(_EVICT_EVERY, stored // _EVICT_PART)
        due = due or (force and stored <= _SPANS_EVERY)
        if deep:
            self._look_at_stored()
        while self._pass_bounds() and deep and force:
            self._look_at_stored()  # the remaining rows may give narrower bounds
        while due and self._evict() and deep and force:
            self._look_at_stored()
            self._pass_bounds()

    def _evict(self) -> bool:
        """Evict stored rows that only the whole condition excludes. Return whether there were many."""
        self._since_evict, evicted = 0, 0
        before = sum(op.rows for op in self._operators)
        for (i, p), columns in self._kept.items():
            live = [box for a in self._steps[i].sides[p].awaits if (box := self._boxes[a]) is not None]
            if self.closed[i][p] or not live:
                continue
            found = {n: united([box[n] for box in live], n) for n in columns if all(n in box for box in live)}
            spans = {self._locally(i, n): span for n, span in found.items() if span is not None}
            if spans:
                evicted += self._operators[i].let_go(SIDES[1 - p], spans)
        return evicted * _MANY_EVICTED >= max(before, 1)

    @property
    def _waits(self) -> bool:
        """Return whether an input is bounded only by its stored rows."""
        return any(i.ended or not i.frontier.intervals for i in self._inputs.values())

    def _pass_bounds(self) -> bool:
        """Pass the bounds of later rows to each step. Return whether one of them changed."""
        news = self._looked()
        moved = False
        for (i, p), nodes in self._wanted.items():
            side = self._steps[i].sides[p]
            if self.closed[i][p] or news.isdisjoint(side.awaits):
                continue
            live = [box for a in side.awaits if (box := self._boxes[a]) is not None]
            op = self._operators[i]
            if not live:
                self.closed[i][p] = moved = True
                for _ in op.finish(SIDES[p]):
                    raise AssertionError("an inner join emitted rows at the end of an input")
                continue
            spans = self._spans_of(i, p, nodes, live)
            if spans:
                moved = True
                self._passed.setdefault((i, p), {}).update(spans)
                for _ in op.narrow(SIDES[p], {self._locally(i, n): span for n, span in spans.items()}):
                    raise AssertionError("an inner join emitted rows when it was pruned")
        return moved

    def _looked(self) -> set[str]:
        """Contract the boxes of inputs whose frontier moved, or of all inputs after a scan of stored rows."""
        news = set()
        frontiers = self.frontiers()
        for a, f in frontiers.items():
            state = f.version, f.ended, self._hull_version
            if self._seen.get(a) == state:
                continue
            self._seen[a] = state
            news.add(a)
            self._boxes[a] = None if f.ended else self._reach.future(a, frontiers, self.hulls)
        return news

    def _spans_of(self, i: int, p: int, nodes: list[Node], live: list[Box]) -> dict[Node, Span]:
        """Return the new bounds of expressions of a step's side."""
        side, passed, out = self._steps[i].sides[p], self._passed.get((i, p), {}), {}
        own = self._inputs[side.aliases[0]].frontier if not side.is_joined else None
        for n in nodes:
            span = united([box[n] for box in live if n in box], n)
            if span is None or passed.get(n) == span:
                continue
            # The step itself follows the bounds from an input's own order.
            if own is None or n in own.promised or own.intervals.get(n, ())[:2] != span:
                out[n] = span
        return out

    def frontiers(self) -> dict[str, Frontier]:
        return {a: i.frontier for a, i in self._inputs.items()}

    def _look_at_stored(self) -> None:
        self._since_spans = 0
        self.hulls |= self.spans(self._reach.want)
        self._hull_version += 1

    def spans(self, nodes: Sequence[Node]) -> dict[str, Box]:
        """Return the domains of each input's rows, stored and future."""
        late = self._spec.options.on_late == "join"
        present = self._spec.certain[0]
        out: dict[str, Box] = {}
        for a, own in self._inputs.items():
            names = set(self._spec.wide(a).names)
            mine = [n for n in nodes if {c.params[1] for c in columns_read([n])} <= names]
            mine = [n for n in mine if n.op == "column" or n in own.frontier.matching]
            box: Box = {}
            for i, step in enumerate(self._steps):
                for p, side in enumerate(step.sides):
                    if a not in side.aliases:
                        continue
                    found = self._operators[i].stored_spans(SIDES[p], [self._locally(i, n) for n in mine])
                    for n, span in zip(mine, found.values(), strict=True):
                        box.setdefault(n, []).append(hull(n, span, n not in present))
            for n, doms in list(box.items()):
                # an input that cannot be in a future result counts as ended
                if not own.ended and self._boxes.get(a, box) is not None:
                    if n not in own.frontier.matching or late:
                        del box[n]
                        continue
                    doms.append(domain_of(n, own.frontier.matching[n]))
                spans = united(doms, n)
                if spans is not None:
                    box[n] = hull(n, spans, n not in present)
                elif all(d.is_empty for d in doms):
                    box[n] = hull(n, None, n not in present)
                else:
                    del box[n]
            out[a] = box
        return out
