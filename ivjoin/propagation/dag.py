"""Propagate domains up and down the graph of a condition, until they no longer change.

The graph contains each distinct node once, so every use of a shared sub-expression narrows it. Nodes are visited in
topological order, and rules run only where a domain changed. The number of rounds is limited. If propagation stops
early, the domains are wider, but still correct.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ivjoin.expr import ops
from ivjoin.expr.nodes import COMPARISONS, Node, walk
from ivjoin.functions.rules.domain import Dom, is_void, met, of_literal, top, united
from ivjoin.functions.rules.rule import Rule
from ivjoin.functions.rules.state import Backward, Case, Cases, Forward, Infeasible, State, Structure, Taken
from ivjoin.interval import truth
from ivjoin.propagation.decided import openings
from ivjoin.propagation.equations import both, polynomial_equation
from ivjoin.propagation.linear import Forms, arguments, equation, remainders
from ivjoin.propagation.meeting import contradict
from ivjoin.propagation.polynomial import Normal, normal_forms
from ivjoin.propagation.rules import rule_of

__all__ = ["Outcome", "Propagator"]

# The number of alternatives times the number of nodes. Without a limit, a condition of 5,000 conjuncts takes minutes.
_MOST_WORK = 1 << 17


class Outcome(enum.Enum):
    """The result of a contraction. INFEASIBLE means that no point satisfies the condition."""

    UNCHANGED = "unchanged"
    CONTRACTED = "contracted"
    INFEASIBLE = "infeasible"


class Propagator:
    """Propagate "all of these conditions are TRUE" through their common graph. A propagator can serve many boxes.

    ``also`` are further expressions whose domains are needed. With ``zero_gives_null``, a division by zero may be NULL,
    as in Spark without ANSI mode. Otherwise it is an error, so no satisfying point has a division by zero. Methods
    raise Infeasible if no point satisfies the conditions.
    """

    __slots__ = (
        "_backward", "_base", "_below", "_cases", "_finer", "_forward", "_quiet", "_scopes", "_template", "index",
        "nodes", "roots", "rules", "structure",
    )  # fmt: skip

    def __init__(self, conjuncts: Sequence[Node], also: Iterable[Node] = (), zero_gives_null: bool = True) -> None:
        nodes = list(walk(*conjuncts, *also))
        at = arguments(nodes)
        sums = normal_forms(nodes, at, 1)
        extra = [r for _, _, r in remainders(nodes, sums).values()]
        if extra:
            # The new nodes come first, because arguments must precede the nodes that use them.
            nodes = list(walk(*extra, *conjuncts, *also))
            at = arguments(nodes)
            sums = normal_forms(nodes, at, 1)
        self.nodes = nodes
        self.index = {n: i for i, n in enumerate(nodes)}
        self.rules: list[Rule] = [rule_of(n, i, at[i], zero_gives_null) for i, n in enumerate(nodes)]
        parents: list[list[int]] = [[] for _ in nodes]
        for i, args in enumerate(at):
            for j in dict.fromkeys(args):
                parents[j].append(i)
        # A lazy operator always evaluates its first argument.
        strict = [at[i] if r.strict is None else at[i][: len(r.strict)] for i, r in enumerate(self.rules)]
        wanted = {self.index[n] for n in also}
        rests = {i: (x, k, self.index[r]) for i, (x, k, r) in remainders(nodes, sums).items()}
        known = Forms(sums, rests, openings(nodes, at))
        normal = normal_forms(nodes, at)
        whole = frozenset(i for i, n in enumerate(nodes) if n.type.is_discrete)
        for i, n in enumerate(nodes):
            used = i in wanted or any(_takes(p, nodes[p], sums[p]) for p in parents[i])
            for e in (equation(i, n, at[i], known, used), polynomial_equation(i, n, at[i], normal, used, whole)):
                if e is None:
                    continue
                self.rules[i] = both(self.rules[i], e)
                for j in e.atoms:
                    if i not in parents[j]:
                        parents[j].append(i)
                strict[i] = (*strict[i], *(j for j in e.atoms if nodes[j].op == ops.MOD))
        below: list[list[int]] = [[] for _ in nodes]
        for j, users in enumerate(parents):
            for i in users:
                below[i].append(j)
        self._below = below
        self._scopes: dict[int, bytearray] = {}
        self._base: State | None = None
        self.structure = Structure([tuple(p) for p in parents], strict)
        self.roots = tuple(dict.fromkeys(self.index[c] for c in conjuncts))
        self._forward: list[Forward | None] = [r.forward for r in self.rules]
        self._backward: list[Backward | None] = [r.backward for r in self.rules]
        self._cases: list[tuple[int, Cases]] = [(i, r.cases) for i, r in enumerate(self.rules) if r.cases is not None]
        self._cases = self._cases[: _MOST_WORK // max(1, len(nodes))]  # fewer cases give wider, correct domains
        finer = [(i, r.finer) for i, r in enumerate(self.rules) if r.finer is not None]
        ways = _ways(at, self.roots) if finer else []
        self._finer = [(i, offer) for i, offer in finer if _read_again(i, at, ways, nodes)]
        # Comparisons of numbers. If they must be TRUE, the backward pass decides whether that is possible.
        self._quiet = bytearray(
            n.op in COMPARISONS and n.args[0].type.kind not in ("bool", "string", "binary", "null") for n in nodes
        )
        self._template = self._fresh()
        self._base = None if contradict(nodes, at, self.roots, sums) else self._settled()
        self._scopes = {}

    def _fresh(self) -> list[Any]:
        """Return the domains of all nodes if nothing is known about the columns."""
        D: list[Any] = []
        for n, r in zip(self.nodes, self.rules):
            if n.op == "literal":
                D.append(of_literal(n))
            else:
                D.append(top(n.type) if r.forward is None else met(top(n.type), r.forward(D)))
        return D

    def _settled(self) -> State | None:
        """Return the initial state of contractions: all conjuncts are TRUE, and nothing else is known."""
        n = len(self.nodes)
        s = State(self.structure, self._template.copy(), bytearray(n), bytearray(n), bytearray(n))
        try:
            for r in self.roots:
                s.require(r)
            for r in self.roots:
                s.cut_mask(r, truth.TRUE)
            self.settle(s, 4, 1)
        except Infeasible:
            return None
        s.up, s.down = bytearray(n), bytearray(n)
        return s

    def start(self, known: Mapping[Node, Dom]) -> State:
        """Return the state with the known domains before propagation."""
        if self._base is None:
            raise Infeasible
        s = self._base.copy()
        D, index = s.D, self.index
        for node, dom in known.items():
            j = index.get(node)
            if j is not None:
                old = D[j]
                new = met(old, dom._state)
                if new != old:
                    D[j] = new
                    s.changed(j)
                    if s.required[j] and is_void(new):
                        raise Infeasible
        return s

    def fixpoint(self, s: State, rounds: int, thorough: bool = True) -> None:
        """Propagate up and down until nothing changes, at most ``rounds`` times.

        With ``thorough``, a rule runs again on its own result, which may narrow further.
        """
        D, up, down, required = s.D, s.up, s.down, s.required
        forward, backward, quiet = self._forward, self._backward, self._quiet
        for _ in range(rounds):
            s.narrowed = False
            # Arguments precede the nodes that use them, so the forward pass visits nodes in rising order.
            i = up.find(1)
            while i >= 0:
                up[i] = 0
                old, f = D[i], forward[i]
                if f is not None and not (quiet[i] and old == truth.TRUE and required[i]):
                    new = f(D)
                    if new != old:
                        common = met(old, new)
                        if common != old:
                            D[i] = common
                            s.changed(i)
                            if required[i] and is_void(common):
                                raise Infeasible
                i = up.find(1, i + 1)
            i = down.rfind(1)
            while i >= 0:
                down[i] = 0
                if required[i]:
                    b = backward[i]
                    if b is not None:
                        if not thorough:
                            s.source = i
                        b(s)
                i = down.rfind(1, 0, i)
            s.source = -1
            if not s.narrowed:
                break

    def split(self, s: State, rounds: int, depth: int, thorough: bool = True) -> None:
        """Narrow to the hull of the alternatives of each open choice (constructive disjunction)."""
        for i, offer in self._cases:
            if s.required[i] and (cases := offer(s)) is not None:
                self.join(s, cases, rounds, depth, thorough)
        if not thorough:
            return
        for i, offer in self._finer:
            if s.required[i] and (cases := offer(s)) is not None:
                self.join(s, cases, rounds, 1, thorough)

    def _scope(self, root: int, outer: bytearray | None) -> bytearray:
        """Return the nodes below a node, and the nodes that are evaluated at every satisfying point."""
        found = self._scopes.get(root)
        if found is None:
            found = bytearray(len(self.nodes)) if self._base is None else self._base.required[:]
            stack, seen = [root], {root}
            while stack:
                j = stack.pop()
                found[j] = 1
                new = [k for k in self._below[j] if k not in seen]
                seen.update(new)
                stack.extend(new)
            self._scopes[root] = found
        if outer is None or outer is found:
            return found
        return bytearray(a & b for a, b in zip(found, outer))

    def join(self, s: State, cases: Sequence[Case], rounds: int, depth: int, thorough: bool = True) -> None:
        """Narrow to the hull of several cases. At least one of them is true at each satisfying point."""
        left: list[State] = []
        touched: set[int] = set()
        for case in cases:
            branch = s.copy()
            if isinstance(case, Taken):
                branch.scope = self._scope(case.root, s.scope)
            try:
                case(branch)
                self.fixpoint(branch, rounds if thorough else 1, thorough)
                if depth > 1:
                    self.split(branch, rounds, depth - 1, thorough)
            except Infeasible:
                continue
            # A node that one branch does not change is not changed by the hull.
            touched = touched.intersection(branch.touched) if left else set(branch.touched)
            if not thorough and all(self.nodes[j].type.kind == "bool" for j in touched):
                return
            left.append(branch)
        if not left:
            raise Infeasible
        if len(left) == 1:
            for j, r in enumerate(left[0].required):
                if r:
                    s.require(j)
        for j in touched:
            new = left[0].D[j]
            for branch in left[1:]:
                new = united(new, branch.D[j])
            common = met(s.D[j], new)
            if common != s.D[j]:
                s.D[j] = common
                s.changed(j)

    def run(self, known: Mapping[Node, Dom], rounds: int = 4, depth: int = 1, thorough: bool = True) -> State:
        """Propagate from known domains, and try alternatives up to a nesting depth."""
        s = self.start(known)
        self.settle(s, rounds, depth, thorough)
        return s

    def settle(self, s: State, rounds: int, depth: int, thorough: bool = True) -> None:
        """Propagate and try alternatives in turn, until the alternatives narrow nothing."""
        self.fixpoint(s, rounds, thorough)
        if not depth or not (self._cases or (thorough and self._finer)):
            return
        for _ in range(3 if thorough else 1):
            s.narrowed = False
            self.split(s, rounds, depth, thorough)
            if not s.narrowed:
                break
            self.fixpoint(s, rounds, thorough)

    def contract(
        self, known: Mapping[Node, Dom], want: Sequence[Node], rounds: int = 2, depth: int = 1, thorough: bool = False
    ) -> tuple[Outcome, dict[Node, Dom]]:
        """Return the outcome, and the domains of the nodes ``want`` at points that satisfy all conjuncts.

        The time is bounded. Nodes that are not in ``known`` have the domain of their type.
        """
        try:
            s = self.run(known, rounds, depth, thorough)
        except Infeasible:
            return Outcome.INFEASIBLE, {n: Dom.empty(n.type) for n in want}
        outcome, out = Outcome.UNCHANGED, {}
        for n in want:
            j = self.index[n]
            dom = Dom(n.type, s.D[j])
            out[n] = dom
            before = known.get(n)
            if outcome is Outcome.UNCHANGED and s.D[j] != (self._template[j] if before is None else before._state):
                outcome = Outcome.CONTRACTED
        return outcome, out

    def upward(self, known: Mapping[Node, Dom]) -> list[Any]:
        """Return the domains of all nodes, using only forward rules. The conjuncts are not assumed to be TRUE."""
        D, up, parents, rules = self._template.copy(), bytearray(len(self.nodes)), self.structure.parents, self._forward
        for node, dom in known.items():
            j = self.index.get(node)
            if j is not None:
                common = met(D[j], dom._state)
                if common != D[j]:
                    D[j] = common
                    for k in parents[j]:
                        up[k] = 1
        i = up.find(1)
        while i >= 0:
            f, old = rules[i], D[i]
            if f is not None:
                common = met(old, f(D))
                if common != old:
                    D[i] = common
                    for k in parents[i]:
                        up[k] = 1
            i = up.find(1, i + 1)
        return D

    def forward(self, known: Mapping[Node, Dom], want: Node) -> Dom:
        """Return the domain of a node, using only forward rules."""
        return Dom(want.type, self.upward(known)[self.index[want]])


def _read_again(i: int, at: Sequence[tuple[int, ...]], ways: Sequence[int], nodes: Sequence[Node]) -> bool:
    """Return whether a column inside node i is also read outside the node."""
    through = [0] * (i + 1)
    through[i] = ways[i]
    for j in range(i, -1, -1):
        if through[j]:
            if nodes[j].op == "column" and through[j] < ways[j]:
                return True
            for k in at[j]:
                through[k] += through[j]
    return False


def _ways(at: Sequence[tuple[int, ...]], roots: Sequence[int]) -> list[int]:
    """Return the number of paths from the roots to each node."""
    ways = [0] * len(at)
    for r in roots:
        ways[r] = 1
    for i in range(len(at) - 1, -1, -1):
        for j in at[i]:
            ways[j] += ways[i]
    return ways


def _takes(p: int, parent: Node, s: Normal | None) -> bool:
    """Return whether a parent uses its argument outside a linear form. Comparisons have their own equations."""
    return parent.op not in COMPARISONS and (s is None or (p,) in s.terms)
