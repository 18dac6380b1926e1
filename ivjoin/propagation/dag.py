"""The graph of a condition with a domain at each node: bottom-up, top-down, to a fixpoint.

Nodes are visited in topological order, each distinct one once, so that a shared sub-expression is narrowed by all that
use it. Going up, a rule computes a node from its arguments; going down, it narrows the arguments by what is left of the
node. Both run only where something changed, until nothing does or a cap on the rounds is reached: stopping early is
weak, never wrong.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ivjoin.expr.nodes import COMPARISONS, Node, walk
from ivjoin.interval import truth
from ivjoin.propagation.domain import NAN, NULL, Dom, none_of, state_of, top
from ivjoin.propagation.linear import Equation, equation, forms, remainders
from ivjoin.propagation.rule import Rule
from ivjoin.propagation.rules import rule_of
from ivjoin.propagation.state import Backward, Case, Cases, Forward, Infeasible, State, Structure

__all__ = ["Outcome", "Propagator"]


class Outcome(enum.Enum):
    """What a contraction found: nothing new, a smaller box, or that no point satisfies the condition."""

    UNCHANGED = "unchanged"
    CONTRACTED = "contracted"
    INFEASIBLE = "infeasible"


class Propagator:
    """Propagation of "all of these conditions are TRUE" through their common graph; made once, used for many boxes.

    Parameters
    ----------
    conjuncts : sequence of Node
        Conditions, all of which are TRUE at a satisfying point.
    also : iterable of Node
        Further expressions whose domains are asked for.
    """

    __slots__ = (
        "_backward", "_cases", "_forward", "_template", "index", "nodes", "roots", "rules", "structure",
    )  # fmt: skip

    def __init__(self, conjuncts: Sequence[Node], also: Iterable[Node] = ()) -> None:
        nodes = list(walk(*conjuncts, *also))
        at = _arguments(nodes)
        sums = forms(nodes, at)
        extra = [r for _, _, r in remainders(nodes, sums).values()]
        if extra:
            # In front, so that they come before whatever uses them.
            nodes = list(walk(*extra, *conjuncts, *also))
            at = _arguments(nodes)
            sums = forms(nodes, at)
        self.nodes = nodes
        self.index = {n: i for i, n in enumerate(nodes)}
        self.rules: list[Rule] = [rule_of(n, i, at[i]) for i, n in enumerate(nodes)]
        parents: list[list[int]] = [[] for _ in nodes]
        for i, args in enumerate(at):
            for j in dict.fromkeys(args):
                parents[j].append(i)
        # A lazy operator still evaluates its first argument.
        strict = [at[i] if r.strict is None else at[i][: len(r.strict)] for i, r in enumerate(self.rules)]
        wanted = {self.index[n] for n in also}
        rests = {i: (x, k, self.index[r]) for i, (x, k, r) in remainders(nodes, sums).items()}
        for i, n in enumerate(nodes):
            used = i in wanted or any(
                sums[p] is None or p in sums[p].terms for p in parents[i] if nodes[p].op not in COMPARISONS  # type: ignore[union-attr]
            )
            e = equation(i, n, at[i], sums, used, rests)
            if e is not None:
                self.rules[i] = _both(self.rules[i], e)
                for j in e.atoms:
                    if i not in parents[j]:
                        parents[j].append(i)
                strict[i] = (*strict[i], *(j for j in e.atoms if nodes[j].op == "mod"))
        self.structure = Structure([tuple(p) for p in parents], strict)
        self.roots = tuple(dict.fromkeys(self.index[c] for c in conjuncts))
        self._forward: list[tuple[int, Forward]] = [
            (i, r.forward) for i, r in enumerate(self.rules) if r.forward is not None
        ]
        self._backward: list[tuple[int, Backward]] = [
            (i, r.backward) for i, r in reversed(list(enumerate(self.rules))) if r.backward is not None
        ]
        self._cases: list[tuple[int, Cases]] = [(i, r.cases) for i, r in enumerate(self.rules) if r.cases is not None]
        self._template = self._fresh()

    def _fresh(self) -> list[Any]:
        """The domains of all nodes where nothing is known of the columns."""
        D: list[Any] = []
        for n, r in zip(self.nodes, self.rules):
            if n.op == "literal":
                D.append(_of_literal(n))
            else:
                D.append(top(n.type) if r.forward is None else _met(top(n.type), r.forward(D)))
        return D

    def start(self, known: Mapping[Node, Dom]) -> State:
        """The state before anything is propagated, but the known domains put in and the roots TRUE.

        Raises
        ------
        Infeasible
        """
        n = len(self.nodes)
        s = State(self.structure, self._template.copy(), bytearray(n), bytearray(n), bytearray(n))
        for node, dom in known.items():
            j = self.index.get(node)
            if j is not None:
                new = _met(s.D[j], state_of(dom))
                if new != s.D[j]:
                    s.D[j] = new
                    s.changed(j)
        for r in self.roots:
            s.require(r)
        for r in self.roots:
            s.cut_mask(r, truth.TRUE)
        return s

    def fixpoint(self, s: State, rounds: int) -> None:
        """Propagate up and down until nothing changes, ``rounds`` times at most.

        Raises
        ------
        Infeasible
        """
        D, up, down, required = s.D, s.up, s.down, s.required
        for _ in range(rounds):
            s.narrowed = False
            for i, forward in self._forward:
                if up[i]:
                    up[i] = 0
                    new = forward(D)
                    old = D[i]
                    if new != old:
                        met = _met(old, new)
                        if met != old:
                            D[i] = met
                            s.changed(i)
                            if required[i] and _is_void(met):
                                raise Infeasible
            for i, backward in self._backward:
                if down[i] and required[i]:
                    down[i] = 0
                    backward(s)
            if not s.narrowed:
                break

    def split(self, s: State, rounds: int, depth: int) -> None:
        """Constructive disjunction: narrow to the hull of what the alternatives of each open choice leave.

        Raises
        ------
        Infeasible
        """
        for i, offer in self._cases:
            if not s.required[i]:
                continue
            cases = offer(s)
            if cases is not None:
                self.join(s, cases, rounds, depth)

    def join(self, s: State, cases: Sequence[Case], rounds: int, depth: int) -> None:
        """Narrow to the hull of what is left under each of several cases, one of which holds."""
        left: list[State] = []
        for case in cases:
            branch = s.copy()
            try:
                case(branch)
                self.fixpoint(branch, rounds)
                if depth > 1:
                    self.split(branch, rounds, depth - 1)
            except Infeasible:
                continue
            left.append(branch)
        if not left:
            raise Infeasible
        self._take_hull(s, [b.D for b in left])
        if len(left) == 1:
            for j, r in enumerate(left[0].required):
                if r:
                    s.require(j)

    def _take_hull(self, s: State, branches: list[list[Any]]) -> None:
        for j, old in enumerate(s.D):
            new = branches[0][j]
            for D in branches[1:]:
                if new == old:
                    break
                new = _united(new, D[j])
            if new != old:
                met = _met(old, new)
                if met != old:
                    s.D[j] = met
                    s.changed(j)

    def run(self, known: Mapping[Node, Dom], rounds: int = 4, depth: int = 1) -> State:
        """Propagate from known domains, with alternatives tried to a depth.

        Raises
        ------
        Infeasible
        """
        s = self.start(known)
        self.settle(s, rounds, depth)
        return s

    def settle(self, s: State, rounds: int, depth: int) -> None:
        """Fixpoint and alternatives in turn, until the alternatives bring nothing new.

        Raises
        ------
        Infeasible
        """
        self.fixpoint(s, rounds)
        if not depth or not self._cases:
            return
        for _ in range(3):
            s.narrowed = False
            self.split(s, rounds, depth)
            if not s.narrowed:
                break
            self.fixpoint(s, rounds)

    def contract(
        self, known: Mapping[Node, Dom], want: Sequence[Node], rounds: int = 4, depth: int = 1
    ) -> tuple[Outcome, dict[Node, Dom]]:
        """What is left of the wanted nodes at points that satisfy all conjuncts.

        Parameters
        ----------
        known : mapping of Node to Dom
            What is known of nodes; of the others, their type.
        want : sequence of Node
            Nodes of the graph.
        """
        try:
            s = self.run(known, rounds, depth)
        except Infeasible:
            return Outcome.INFEASIBLE, {n: Dom.empty(n.type) for n in want}
        outcome, out = Outcome.UNCHANGED, {}
        for n in want:
            j = self.index[n]
            dom = Dom(n.type, s.D[j])
            out[n] = dom
            before = known.get(n)
            if s.D[j] != (self._template[j] if before is None else state_of(before)):
                outcome = Outcome.CONTRACTED
        return outcome, out

    def upward(self, known: Mapping[Node, Dom]) -> list[Any]:
        """The domains of all nodes by going up alone; no condition is assumed."""
        D: list[Any] = []
        for n, r in zip(self.nodes, self.rules):
            if n.op == "literal":
                d = _of_literal(n)
            else:
                d = top(n.type) if r.forward is None else _met(top(n.type), r.forward(D))
            dom = known.get(n)
            D.append(d if dom is None else _met(d, state_of(dom)))
        return D

    def forward(self, known: Mapping[Node, Dom], want: Node) -> Dom:
        """The domain of a node by going up alone."""
        return Dom(want.type, self.upward(known)[self.index[want]])


def _arguments(nodes: Sequence[Node]) -> list[tuple[int, ...]]:
    index = {n: i for i, n in enumerate(nodes)}
    return [tuple(index[a] for a in n.args) for n in nodes]


def _both(rule: Rule, e: Equation) -> Rule:
    """An operator's rule and its node's equation, one after the other."""
    forward, backward = rule.forward, rule.backward
    if forward is None or backward is None:
        return rule

    def up(D: list[Any]) -> Any:
        new, also = forward(D), e.forward(D)
        return new if also is None else _met(new, also)

    def down(s: State) -> None:
        backward(s)
        e.backward(s)

    return rule._replace(forward=up, backward=down)


def _of_literal(n: Node) -> Any:
    v, t = n.params[0], n.type
    if t.kind == "bool":
        return truth.NULL if v is None else truth.TRUE if v else truth.FALSE
    if v is None:
        return none_of(t, NULL)
    if v != v:
        return none_of(t, NAN)
    return v, v, 0


def _met(old: Any, new: Any) -> Any:
    """The intersection of two domains of one type."""
    if old.__class__ is int:
        return old & new
    alo, ahi, af = old
    blo, bhi, bf = new
    lo = alo if blo is None or (alo is not None and alo >= blo) else blo
    hi = ahi if bhi is None or (ahi is not None and ahi <= bhi) else bhi
    if lo is not None and hi is not None and lo > hi and lo.__class__ not in (str, bytes):
        return 1, 0, af & bf
    return lo, hi, af & bf


def _united(a: Any, b: Any) -> Any:
    """The hull of two domains of one type."""
    if a.__class__ is int:
        return a | b
    alo, ahi, af = a
    blo, bhi, bf = b
    if alo is not None and ahi is not None and alo > ahi:
        return blo, bhi, af | bf
    if blo is not None and bhi is not None and blo > bhi:
        return alo, ahi, af | bf
    lo = None if alo is None or blo is None else alo if alo <= blo else blo
    hi = None if ahi is None or bhi is None else ahi if ahi >= bhi else bhi
    return lo, hi, af | bf


def _is_void(d: Any) -> bool:
    """Whether nothing is left, not even NULL or NaN."""
    if d.__class__ is int:
        return not d
    lo, hi, flags = d
    return not flags and lo is not None and hi is not None and bool(lo > hi)


