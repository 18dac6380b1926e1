"""Run the joins of a query one after the other. Inner joins at its start run as one join of many inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.errors import IvjoinError, UnsupportedError
from ivjoin.expr import build, ops
from ivjoin.expr.nodes import FLIPPED, NEGATED, Node, columns_of, make, rewrite
from ivjoin.expr.timezones import zone_of_call
from ivjoin.frontier.late import late_rule
from ivjoin.multi.question import MOST_INPUTS
from ivjoin.operator.memory.budget import budget_of
from ivjoin.stream.after.inputs import renamed
from ivjoin.stream.asof import asof_join
from ivjoin.stream.many import join_many
from ivjoin.stream.pull import band_join, stream_of
from ivjoin.stream.query.projected import Projection
from ivjoin.stream.query.resolved import Resolved, Step, sides
from ivjoin.stream.sources.inputs import Source
from ivjoin.stream.window.join import Finished, window_plan

if TYPE_CHECKING:
    from ivjoin.expr.literals import Params
    from ivjoin.stream.join_stream import JoinStream

__all__ = ["joined"]

_Names = dict[tuple[str, str], str]  # (alias, column) -> the joined column


def joined(
    query: Resolved, sources: Mapping[str, Source], orders: Mapping[str, Any], bounds: Mapping[str, Any],
    options: Mapping[str, Any], threads: Any, params: Params | None = None,
) -> JoinStream:
    """Return the output of a query over the opened inputs, which are given by alias in the order of the query."""
    given = {alias: copy(source) for alias, source in sources.items()}

    def again(wanted: Sequence[str] | None) -> JoinStream:
        output = tuple((n, node) for n, node in query.output if wanted is None or n in wanted) or query.output[:1]
        inputs = {alias: copy(source) for alias, source in given.items()}
        return joined(replace(query, output=output), inputs, orders, bounds, options, threads, params)

    calls = _Calls(sources, orders, bounds, options, threads, params)
    steps = list(query.steps)
    wanted = [*query.after, *(node for _, node in query.output)]
    many = _of_many(steps)
    stream, names, left = None, {(query.first, n): n for n in sources[query.first].schema.names}, sources[query.first]
    ends = left.ends
    for i, step in enumerate(steps):
        if i + 1 < many:
            ends = ends and sources[step.alias].ends
            continue
        later = [*wanted, *(c for s in steps[i + 1 :] for c in s.conjuncts)]
        if i + 1 == many:
            stream, names = calls.many(query.first, steps[:many], later)
        else:
            if stream is not None:
                left = _as_source(stream, ends)
            first = query.first if i == 0 else None
            if step.asof:
                stream, names = calls.asof(left, names, step, later, alone=i == 0)
            elif step.aggregate is not None:
                stream, names = calls.window(left, names, step, later, first)
            else:
                stream, names = calls.two(left, names, step, later, first)
        ends = ends and sources[step.alias].ends
    assert stream is not None
    projection = Projection(stream.schema, names, query.after, query.output)
    return stream._changed(projection.schema, projection.all_of, again, all(s.ends for s in sources.values()))


def _of_many(steps: Sequence[Step]) -> int:
    """Return how many of the first joins form one join of many inputs, or 0 if it would join only two inputs."""
    count = 0
    while count < len(steps) and count + 1 < MOST_INPUTS and _is_plain(steps[count]):
        count += 1
    return count if count > 1 else 0


def _is_plain(step: Step) -> bool:
    return step.how == "inner" and not step.asof and step.pick is None and step.aggregate is None


def _as_source(stream: JoinStream, ends: bool) -> Source:
    """Return joined rows as an input. If all inputs end, it is a table that is built at the first read."""
    made: list[pa.Table] = []

    def table(names: Sequence[str] | None) -> pa.Table:
        if not made:
            made.append(stream.read_all())
        return made[0] if names is None else made[0].select(names)

    def batches(names: Sequence[str] | None) -> Any:
        return iter(stream) if names is None else (b.select(names) for b in stream)

    return Source(stream.schema, table if ends else batches, ends, read_from=stream._read_from)


class _Calls:
    """Calls of join functions, with the options that they share."""

    def __init__(
        self, sources: Mapping[str, Source], orders: Mapping[str, Any], bounds: Mapping[str, Any],
        options: Mapping[str, Any], threads: Any, params: Params | None,
    ) -> None:
        self.sources, self.orders, self.bounds = sources, orders, bounds
        self.options, self.threads, self.params = options, threads, params

    def _options_of(self, alias: str, first: str | None) -> dict[str, Any]:
        """Return the options of a join of two inputs. A function for late rows receives the alias of their input."""
        on_late = self.options["on_late"]
        if not callable(on_late):
            return {**self.options}
        named = {"left": first, "right": alias}
        return {**self.options, "on_late": lambda side, rows: on_late(named[side], rows)}

    def many(self, first: str, steps: Sequence[Step], later: Iterable[Node]) -> tuple[JoinStream, _Names]:
        """Join many inputs by inner joins."""
        aliases = [first, *(s.alias for s in steps)]
        names = {(a, n): f"{a}_{n}" for a in aliases for n in self.sources[a].schema.names}
        stream = join_many(
            {a: self.sources[a] for a in aliases}, _all([c for s in steps for c in s.conjuncts]),
            orders=_of(self.orders, aliases), bounds=_of(self.bounds, aliases),
            columns=_needed(names, later), allow_cross=any(s.crossed for s in steps), threads=self.threads,
            **self.options,
        )
        return stream, names

    def two(
        self, left: Source, names: _Names, step: Step, later: Iterable[Node], first: str | None
    ) -> tuple[JoinStream, _Names]:
        """Join two inputs on any condition. ``first`` is the alias of ``left``, or None if it is a result."""
        right = self.sources[step.alias]
        out, suffix = _joined_names(names, left, right, step)
        pick = step.pick
        if pick is not None:
            pick = replace(pick, by=[_localized(n, names, step.alias) for n in pick.items if isinstance(n, Node)])
        stream = band_join(
            left, right, condition=_all([_localized(c, names, step.alias) for c in step.conjuncts]), how=step.how,
            left_order=self.orders.get(first or ""), right_order=self.orders.get(step.alias),
            left_bounds=self.bounds.get(first or ""), right_bounds=self.bounds.get(step.alias), suffix=suffix,
            columns=_needed(out, later), allow_cross=step.crossed, threads=self.threads, pick=pick,
            **self._options_of(step.alias, first),
        )
        return stream, out

    def window(
        self, left: Source, names: _Names, step: Step, later: Iterable[Node], first: str | None
    ) -> tuple[JoinStream, _Names]:
        """Aggregate the matches of each joined row. The aggregates have no alias."""
        assert step.aggregate is not None
        right, options = self.sources[step.alias], self.options
        # If the joined rows have a column of that name, it is a different column.
        own = {n: n + "_" * (n in left.schema.names) for n in step.aggregate}
        rule, report = late_rule(self._options_of(step.alias, first)["on_late"])
        plan, asked = window_plan(
            left.schema, right.schema, aggregate={own[n]: text for n, text in step.aggregate.items()}, how=step.how,
            include_previous=False, condition=_all([_localized(c, names, step.alias) for c in step.conjuncts]),
            left_order=self.orders.get(first or ""), right_order=self.orders.get(step.alias),
            left_bounds=self.bounds.get(first or ""), right_bounds=self.bounds.get(step.alias),
            batch_size=options["batch_size"], on_late=rule, timezone=options["timezone"],
            alias=step.alias, params=self.params,
        )
        out = names | {("", n): given for n, given in own.items()}
        stream = stream_of(
            (left, right), plan, self.threads, options["sort"], _needed(out, later),
            budget_of(options["memory_limit"], options["when_full"]), partial(Finished, asked), report,
        )
        return stream, out

    def asof(
        self, left: Source, names: _Names, step: Step, later: Iterable[Node], alone: bool
    ) -> tuple[JoinStream, _Names]:
        """Join with the nearest row."""
        right = self.sources[step.alias]
        zone = str(zone_of_call(self.options["timezone"]))
        by, on, direction, exact = _asof_question(step, names, zone)
        # A key of one name would become one output column, which has a value even where no row matched.
        right, new = _renamed(right, {b for a, b in by if a == b}, set(left.schema.names))
        by = [(a, new[b]) for a, b in by]
        on = on[0], new[on[1]]
        out, suffix = _joined_names(names, left, right, step, new)
        orders = {
            side: self.orders[alias]
            for side, alias in (("left_order", next(iter(names))[0] if alone else ""), ("right_order", step.alias))
            if alias in self.orders
        }
        stream = asof_join(
            left, right, on=on, by=by or None, direction=direction, how=step.how, suffix=suffix,
            allow_exact_matches=exact, columns=_needed(out, later), threads=self.threads, **orders,
            **self._options_of(step.alias, next(iter(names))[0] if alone else None),
        )
        return stream, out


def _of(given: Mapping[str, Any], aliases: Sequence[str]) -> dict[str, Any] | None:
    return {a: given[a] for a in aliases if a in given} or None


def _all(conjuncts: Sequence[Node]) -> Node | None:
    return build.and_(*conjuncts) if conjuncts else None


def _renamed(source: Source, keys: set[str], taken: set[str]) -> tuple[Source, dict[str, str]]:
    """Return an input with new names for some columns, and the names of all columns."""
    names, taken = {n: n for n in source.schema.names}, taken | {*source.schema.names}
    for key in keys:
        names[key] = next(n for i in range(len(taken) + 1) if (n := f"{key}_{i}") not in taken)
        taken.add(names[key])
    return source if not keys else renamed(source, list(names.values())), names


def _joined_names(
    names: _Names, left: Source, right: Source, step: Step, new_names: Mapping[str, str] | None = None
) -> tuple[_Names, str]:
    """Return the columns of a join of two inputs, and a suffix for right columns that avoids name clashes."""
    taken, own = set(left.schema.names), right.schema.names
    suffix = "_right"
    while any(n in taken and (n + suffix in taken or n + suffix in own) for n in own):
        suffix += "_"
    out = dict(names)
    if step.how not in ("left_semi", "left_anti"):
        of = {new: old for old, new in (new_names or {}).items()}
        out |= {(step.alias, of.get(n, n)): n + suffix if n in taken else n for n in own}
    return out, suffix


def _needed(names: _Names, nodes: Iterable[Node]) -> list[str]:
    """Return the joined columns that expressions read, at least one."""
    read = {c.params for c in columns_of(*nodes)}
    needed = [name for key, name in names.items() if key in read]
    return list(dict.fromkeys(needed)) or [next(iter(names.values()))]


def _localized(node: Node, names: _Names, alias: str) -> Node:
    """Return a condition as an expression over a left and a right input."""

    def local(n: Node) -> Node | None:
        if n.op != "column":
            return None
        side, name = ("right", n.params[1]) if n.params[0] == alias else ("left", names[n.params])
        return make("column", (), (side, name), n.type)

    return rewrite(node, local)


def _asof_question(
    step: Step, names: _Names, zone: str
) -> tuple[list[tuple[str, str]], tuple[str, str], Any, bool]:
    """Return the keys, the compared columns, the direction, and whether equal times match.

    An UnsupportedError is raised unless the condition consists of equalities of columns and one inequality.
    """
    by, axis = [], []
    for c in step.conjuncts:
        pair = _columns_of_comparison(c, step.alias, zone)
        if pair is None:
            raise _unlike_asof(step, f"{c} does not compare one column of each side")
        op, a, b = pair
        if op == ops.EQ:
            by.append((names[a.params], b.params[1]))
        else:
            axis.append((op, names[a.params], b.params[1]))
    if len(axis) != 1:
        raise _unlike_asof(step, f"the condition has {len(axis)} inequalities")
    op, a_name, b_name = axis[0]
    return by, (a_name, b_name), "backward" if op in (ops.GE, ops.GT) else "forward", op in (ops.GE, ops.LE)


def _unlike_asof(step: Step, why: str) -> IvjoinError:
    return UnsupportedError(
        f"ASOF JOIN {step.alias}: {why}; expected equalities and one inequality of columns, such as "
        f"l.sym = r.sym AND l.ts >= r.ts. Compute an expression in a column first, or use a plain JOIN"
    )


def _columns_of_comparison(c: Node, alias: str, zone: str) -> tuple[str, Node, Node] | None:
    """Return the operator, the left column and the right column of a comparison, or None if the query casts a column.
    """
    if c.op == ops.NE or c.op not in NEGATED:
        return None
    a, b = (x.args[0] if x.op == ops.CAST else x for x in c.args)
    if a.op != "column" or b.op != "column" or build.compare(c.op, a, b, zone) is not c:
        return None
    op = c.op
    if a.params[0] == alias:
        op, a, b = FLIPPED[op], b, a
    return (op, a, b) if sides(b) == {alias} and sides(a) != {alias} else None
