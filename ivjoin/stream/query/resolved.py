"""Resolve the names of a query: conditions, filters and output columns as nodes over ``alias.column``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from ivjoin.conditions.read.sqlselect import Item, JoinClause, Select
from ivjoin.errors import ColumnError, ConditionError, UnsupportedError
from ivjoin.expr import build, ops
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import Node, columns_of, make
from ivjoin.expr.scope import Scope
from ivjoin.expr.types import from_arrow

if TYPE_CHECKING:
    from ivjoin.expr.literals import Params
    from ivjoin.plan.picking.choice import Pick
    from ivjoin.stream.window.join import WindowAggregates

__all__ = ["Resolved", "Step", "pushed", "resolved", "sides"]


@dataclass(frozen=True, slots=True)
class Step:
    """A join of the previous inputs with one more input.

    - The condition is the AND of ``conjuncts``.
    - ``crossed`` states that all pairs are wanted.
    - The expressions of ``pick`` are nodes over ``alias.column``.
    - ``aggregate`` replaces the matches by aggregates, as in ``window_join``.
    """

    alias: str
    how: str
    asof: bool
    conjuncts: tuple[Node, ...]
    crossed: bool = False
    pick: Pick | None = None
    aggregate: WindowAggregates | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A query over inputs with known columns: the first input, the steps and the output columns.

    ``after`` are conjuncts of WHERE that are evaluated on joined rows.
    """

    first: str
    steps: tuple[Step, ...]
    after: tuple[Node, ...]
    output: tuple[tuple[str, Node], ...]


def sides(*nodes: Node) -> set[str]:
    """Return the aliases whose columns expressions read."""
    return {c.params[0] for c in columns_of(*nodes)}


def resolved(select: Select, schemas: Mapping[str, pa.Schema], zone: str, params: Params | None) -> Resolved:
    """Resolve all names of a query, and move each conjunct of WHERE into a join that may evaluate it.

    An IvjoinError is raised if a name or a type is wrong, or a join has no condition.
    """
    visible = _Visible(schemas, params)
    first, *others = schemas
    visible.add(first)
    steps = [_step(select, clause, alias, visible, zone) for clause, alias in zip(select.joins, others, strict=True)]
    output = [column for item in select.items for column in _columns(select, item, visible, zone)]
    after = []
    where = None if select.where is None else select.node(select.where, visible.scope(), zone)
    if where is not None and where.type.kind not in ("bool", "null"):
        raise ConditionError(f"WHERE is of type {where.type}; expected a condition that is true or false")
    for c in conjuncts_of(where):
        if not pushed(c, steps, len(steps)):
            after.append(c)
    for step in steps:
        if not step.conjuncts and not step.crossed:
            raise ConditionError(
                f"JOIN {step.alias} has no ON, no USING and no WHERE that connects it, so every row would be paired "
                "with every row; write ON, or CROSS JOIN if you want all pairs"
            )
    return Resolved(first, tuple(steps), tuple(after), _with_names(output))


class _Visible:
    """The columns that a part of the query may name."""

    def __init__(self, schemas: Mapping[str, pa.Schema], params: Params | None) -> None:
        self._all, self._params = schemas, params
        self.schemas: dict[str, pa.Schema] = {}
        self.merged: dict[str, Node] = {}  # the columns of USING, by name in lower case
        self.hidden: set[tuple[str, str]] = set()  # columns of USING that * does not repeat
        self._ambiguous: set[str] = set()  # merged columns whose name a later input also has

    def add(self, alias: str, merged: Mapping[str, Node] | None = None) -> None:
        """Make an input and the columns that USING merges visible."""
        self.schemas[alias] = self._all[alias]
        self.merged |= merged or {}
        own = {n.lower() for n in self._all[alias].names} - (merged or {}).keys()
        self._ambiguous |= own & self.merged.keys()

    def scope(self, *more: str) -> Scope:
        inputs = self.schemas | {alias: self._all[alias] for alias in more}
        others = {n.lower() for alias in more for n in self._all[alias].names}
        merged = {n: node for n, node in self.merged.items() if n not in self._ambiguous | others}
        return Scope.of_inputs(inputs, case_sensitive=False, params=self._params, merged=merged)

    def alone(self, alias: str) -> Scope:
        return Scope.of_inputs({alias: self._all[alias]}, case_sensitive=False)

    def column(self, alias: str, name: str) -> Node:
        return make("column", (), (alias, name), from_arrow(self.schemas[alias].field(name).type))


def _step(select: Select, clause: JoinClause, alias: str, visible: _Visible, zone: str) -> Step:
    using = clause.using
    own = {n.lower() for n in visible._all[alias].names}
    if clause.natural:
        names = dict.fromkeys(n for schema in visible.schemas.values() for n in schema.names if n.lower() in own)
        using = tuple(names)
        if not using:
            raise ConditionError(f"NATURAL JOIN {alias}: no column has the same name on both sides; write ON")
    before, conjuncts = visible.scope(), []
    merged = {}
    for i, name in enumerate(using):
        left, right = before.resolve(None, name), visible.alone(alias).resolve(None, name)
        last = clause.asof and i == len(using) - 1
        conjuncts.append(build.compare(ops.GE if last else ops.EQ, left, right, zone))
        both = [left] if clause.how in ("inner", "left") or last else [right]
        if clause.how == "full":
            both = [left, right]
        merged[name.lower()] = both[0] if len(both) == 1 else build.coalesce(*both, zone=zone)
        visible.hidden.add((alias, right.params[1]))
    if clause.on is not None:
        on = select.node(clause.on, visible.scope(alias), zone)
        if on.type.kind not in ("bool", "null"):
            raise ConditionError(f"ON of {alias} is of type {on.type}; expected a condition that is true or false")
        conjuncts += conjuncts_of(on)
    if clause.how not in ("left_semi", "left_anti"):
        visible.add(alias, merged)
    return Step(alias, clause.how, clause.asof, tuple(conjuncts), clause.crossed)


def pushed(c: Node, steps: list[Step], count: int) -> bool:
    """Move a conjunct of WHERE into one of the first joins. Return whether the joins remove all rows that it excludes.

    A join that emits unmatched rows may also use it, to match fewer rows. It is then evaluated again after the join.
    """
    if not count:
        return False
    at, step = count - 1, steps[count - 1]
    read = sides(c)
    of_left = step.alias not in read
    if step.how == "inner" and not step.asof:
        if not (of_left and pushed(c, steps, at)):
            steps[at] = replace(step, conjuncts=(*step.conjuncts, c))
        return True
    if step.how in ("left", "left_semi", "left_anti", "inner") and of_left and read:
        if pushed(c, steps, at):
            return True
        if not step.asof:
            steps[at] = replace(step, conjuncts=(*step.conjuncts, c))
        return step.how == "left_semi"
    if step.how == "right" and not step.asof and read == {step.alias}:
        steps[at] = replace(step, conjuncts=(*step.conjuncts, c))
    return False


def _columns(select: Select, item: Item, visible: _Visible, zone: str) -> list[tuple[str, Node]]:
    if item.tree is not None:
        node = select.node(item.tree, visible.scope(), zone)
        column = node.op == "column" and item.name.lower() == node.params[1].lower()
        return [(node.params[1] if column else item.name, node)]
    aliases = list(visible.schemas)
    if item.of is not None:
        found = visible.scope().side_of(item.of)
        if found is None:
            raise ColumnError(f"{item.of}.* names no table; expected one of {', '.join(aliases)}")
        aliases = [found]
    out: list[tuple[str, str, Node]] = []
    merged = dict(visible.merged) if item.of is None else {}
    for alias in aliases:
        for name in visible.schemas[alias].names:
            if item.of is None and (alias, name) in visible.hidden:
                continue
            # The first column of the name represents all columns that USING has merged.
            node = merged.pop(name.lower()) if name.lower() in merged else visible.column(alias, name)
            out.append((alias, name, node))
    for table, name in item.without:
        alike = [x for x in out if x[1].lower() == name.lower() and (table is None or x[0].lower() == table.lower())]
        if not alike:
            raise ColumnError(f"EXCEPT names {name!r}, which * does not have: {', '.join(n for _, n, _ in out)}")
        out = [x for x in out if x not in alike]
    return [(name, node) for _, name, node in out]


def _with_names(output: list[tuple[str, Node]]) -> tuple[tuple[str, Node], ...]:
    """Return the output columns. Repeated names get the suffixes ``_1``, ``_2`` and so on."""
    if not output:
        raise ColumnError("the select list is empty; expected at least one column")
    taken = {name.lower() for name, _ in output}
    seen: set[str] = set()
    named = []
    for name, node in output:
        if node.type.kind == "null" and node.op == "literal":
            raise UnsupportedError(f"the column {name!r} is NULL and has no type; write CAST(NULL AS type)")
        new, i = name, 0
        while new.lower() in seen or (i and new.lower() in taken):
            i += 1
            new = f"{name}_{i}"
        seen.add(new.lower())
        named.append((new, node))
    return tuple(named)
