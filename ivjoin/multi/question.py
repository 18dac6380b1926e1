"""Check and resolve the arguments of a join of many inputs. The result is a :class:`MultiSpec`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from ivjoin import conditions, expr
from ivjoin.arguments import MOST_ROWS, one_of, whole_number
from ivjoin.conditions.evaluate import check_supported
from ivjoin.conditions.snapshot_checks import check_expressions, damaged, flag
from ivjoin.errors import ConditionError, IvjoinError, OptionError, OrderError, ProtocolError, SchemaError, came
from ivjoin.expr import ops
from ivjoin.expr.nodes import COMPARISONS, Node
from ivjoin.expr.scope import nearest
from ivjoin.expr.timezones import zone_of_call
from ivjoin.multi.spec import MultiSpec, widened
from ivjoin.multi.wording import of_input
from ivjoin.plan.cache import shared
from ivjoin.plan.question import join_spec, schema_of, warn_of_utc
from ivjoin.plan.restored import check_spec
from ivjoin.plan.spec import JoinSpec

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression
    from ivjoin.expr.literals import Params
    from ivjoin.plan.question import DeclaredBounds, Orders, SupportsArrowSchema

__all__ = [
    "AliasBounds", "AliasOrders", "MOST_INPUTS", "Views", "alias_named", "check_multi", "components", "condition_of",
    "multi_spec", "named_inputs",
]  # fmt: skip

MOST_INPUTS = 8
_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

AliasOrders: TypeAlias = "Mapping[str, Orders]"
AliasBounds: TypeAlias = "Mapping[str, DeclaredBounds]"
Views: TypeAlias = "str | Sequence[Sequence[str]]"


def named_inputs(inputs: Any) -> dict[str, Any]:
    """Return the inputs by alias; SchemaError if their number or an alias is invalid."""
    given = inputs.items() if isinstance(inputs, Mapping) else inputs
    pairs: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [None]
    if not all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs):
        raise SchemaError(f"inputs are {came(inputs)}; expected {{alias: input}}, such as {{'q': q, 't': t}}")
    out: dict[str, Any] = {}
    for alias, given in pairs:
        if not isinstance(alias, str) or _ALIAS.fullmatch(alias) is None:
            raise SchemaError(
                f"the alias {came(alias)} is not a valid name; expected letters, digits and underscores, such as 'q'"
            )
        twice = next((a for a in out if a.lower() == alias.lower()), None)
        if twice is not None:
            raise SchemaError(
                f"the alias {alias!r} is used twice{'' if alias == twice else f' (as {twice!r})'}; "
                "give each input an alias of its own, also where both are one table"
            )
        out[alias] = given
    if not 2 <= len(out) <= MOST_INPUTS:
        raise SchemaError(
            f"{len(out)} input{'s' if len(out) != 1 else ''}; expected 2 to {MOST_INPUTS}"
            + (": join some of them first, and take that stream as an input" if len(out) > MOST_INPUTS else "")
        )
    return out


def multi_spec(
    inputs: Mapping[str, SupportsArrowSchema], condition: Expression | None, *, orders: AliasOrders | None = None,
    bounds: AliasBounds | None = None, views: Views = "auto", batch_size: int = 65536, on_late: str = "raise",
    timezone: str | None = None, allow_cross: bool = False, case_sensitive: bool = True,
    params: Params | None = None,
) -> MultiSpec:
    """Check the arguments of a join of many inputs, and resolve every name; IvjoinError if one is invalid."""
    given = named_inputs(inputs)
    arguments: dict[str, Any] = {
        "condition": condition, "orders": orders, "bounds": bounds, "views": views, "batch_size": batch_size,
        "on_late": on_late, "timezone": timezone, "allow_cross": allow_cross, "case_sensitive": case_sensitive,
        "params": params,
    }
    return shared(given.values(), {"aliases": list(given), **arguments}, lambda: _resolved(given, **arguments))


def _resolved(
    inputs: dict[str, Any], condition: Any, orders: Any, bounds: Any, views: Any, batch_size: Any, on_late: Any,
    timezone: Any, allow_cross: Any, case_sensitive: bool, params: Params | None,
) -> MultiSpec:
    schemas = {a: schema_of(given, f"the schema of {a!r}", f"input {a!r}") for a, given in inputs.items()}
    one_of("on_late", on_late, ("raise", "drop", "join"))
    batch_size = whole_number("batch_size", batch_size, 1, MOST_ROWS, "a whole number of rows")
    zone = zone_of_call(timezone)
    if not isinstance(allow_cross, bool):
        raise OptionError(f"allow_cross is {came(allow_cross)}; expected True or False")
    _wide_names(schemas)
    scope = expr.Scope.of_inputs(schemas, case_sensitive, params)
    given = conditions.condition(condition, scope, timezone=zone)
    if given is not None:
        check_supported(given)
        if timezone is None:
            warn_of_utc([given])
    by_order, by_bounds = _by_alias("orders", orders, schemas), _by_alias("bounds", bounds, schemas)
    empty = pa.schema([])
    specs = {}
    for alias, schema in schemas.items():
        try:
            own = join_spec(
                schema, empty, left_order=by_order.get(alias), left_bounds=by_bounds.get(alias),
                batch_size=batch_size, on_late=on_late, timezone=timezone,
            )
        except IvjoinError as e:
            raise e.saying(of_input(str(e), alias)) from e
        specs[alias] = _wide(own, alias)
    spec = MultiSpec(schemas, given, specs, _views(views, list(schemas)), allow_cross)
    _connected(spec)
    return spec


def condition_of(
    condition: Expression | None, schemas: Mapping[str, pa.Schema], timezone: str | None, params: Params | None
) -> Node | None:
    """Return the node of a condition over many inputs, as :func:`multi_spec` reads it."""
    return conditions.condition(condition, expr.Scope.of_inputs(schemas, True, params), timezone=zone_of_call(timezone))


def _wide_names(schemas: Mapping[str, pa.Schema]) -> None:
    taken: dict[str, tuple[str, str]] = {}
    for alias, schema in schemas.items():
        for name in schema.names:
            wide = f"{alias}_{name}"
            if wide in taken:
                a, n = taken[wide]
                raise SchemaError(f"{a}.{n} and {alias}.{name} would both be the output column {wide!r}; rename one")
            taken[wide] = alias, name


def _by_alias(what: str, given: Any, schemas: Mapping[str, pa.Schema]) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise OrderError(f"{what} are {came(given)}; expected {{alias: {what} of that input}}")
    for alias in given:
        if alias not in schemas:
            hint = nearest(alias, schemas) if isinstance(alias, str) else ""
            raise OrderError(
                f"{what} name {came(alias)}, which is not an input; the inputs are {', '.join(schemas)}{hint}"
            )
    return dict(given)


def _wide(spec: JoinSpec, alias: str) -> JoinSpec:
    """Return an input alone, with its columns renamed to ``alias_name``."""
    schema = pa.schema([f.with_name(f"{alias}_{f.name}") for f in spec.schemas[0]])
    orders = tuple(replace(o, expr=widened(o.node, alias)) for o in spec.orders[0])
    bounds = tuple((widened(n, alias), low, high) for n, low, high in spec.bounds[0])
    return replace(spec, schemas=(schema, spec.schemas[1]), orders=(orders, ()), bounds=(bounds, ()))


def _views(views: Any, aliases: list[str]) -> str | tuple[frozenset[str], ...]:
    if isinstance(views, str):
        return one_of("views", views, ("auto", "none", "all"))
    if not isinstance(views, Iterable):
        raise OptionError(f"views are {came(views)}; expected 'auto', 'none', 'all' or groups such as [('q', 't')]")
    out = []
    for group in views:
        if isinstance(group, str) or not isinstance(group, Iterable):
            raise OptionError(f"views contain {came(group)}; expected a group of aliases such as ('q', 't')")
        names = list(group)
        for name in names:
            if name not in aliases:
                raise OptionError(
                    f"a view names {came(name)}, which is not an input; the inputs are {', '.join(aliases)}"
                )
        if len(set(names)) != len(names) or not 2 <= len(names) < len(aliases):
            raise OptionError(
                f"the view {came(tuple(names))} is invalid; expected two or more aliases, each once, not all of them"
            )
        out.append(frozenset(names))
    for a in out:
        for b in out:
            if a & b and not a <= b and not b <= a:
                raise OptionError(
                    f"the views {_said(a, aliases)} and {_said(b, aliases)} overlap; expected one inside the "
                    "other, or no common input"
                )
    return tuple(out)


def _said(view: frozenset[str], aliases: list[str]) -> str:
    return f"({', '.join(a for a in aliases if a in view)})"


def _connected(spec: MultiSpec) -> None:
    groups = components(spec.aliases, [p.aliases for p in spec.parts])
    if len(groups) == 1 or spec.allow_cross or any(_is_never_true(p.node) for p in spec.parts):
        return
    unused = [a for g in groups if len(g) == 1 for a in g]
    rest = [a for a in spec.aliases if a not in unused]
    if unused:
        who = f"input {unused[0]!r} is" if len(unused) == 1 else f"inputs {', '.join(map(repr, unused))} are"
        said = f"{who} not connected to {'the others' if rest else 'each other'} by the condition"
    else:
        said = "the condition leaves the inputs in parts: " + "; ".join(", ".join(g) for g in groups)
    raise ConditionError(
        f"{said}: each row would be joined with every row. Add a conjunct that names both, such as an equality or a "
        "band, or allow the cross product with allow_cross=True (--allow-cross)"
    )


def _is_never_true(node: Node) -> bool:
    """Return whether a conjunct is NULL for all rows: a literal, or a comparison with a NULL literal."""
    if node.op == "literal":
        return node.params[0] is not True
    nulls = (a.op == "literal" and a.params[0] is None for a in node.args)
    return node.op in COMPARISONS - {ops.EQ_NULL_SAFE} and any(nulls)


def components(aliases: Sequence[str], links: Iterable[frozenset[str]]) -> list[list[str]]:
    """Return the groups of inputs that links connect."""
    group = {a: {a} for a in aliases}
    for link in links:
        joined: set[str] = set().union(*(group[a] for a in link)) if link else set()
        for a in joined:
            group[a] = joined
    out: list[list[str]] = []
    for a in aliases:
        if not any(a in g for g in out):
            out.append([b for b in aliases if b in group[a]])
    return out


def check_multi(spec: MultiSpec) -> None:
    """Check a spec that :meth:`MultiSpec.from_json` has read; IvjoinError if no call could make such a join."""
    for alias, schema in named_inputs(spec.schemas).items():
        schema_of(schema, f"the schema of {alias!r}", f"input {alias!r}")
    _wide_names(spec.schemas)
    if [*spec.inputs] != spec.aliases:
        raise damaged(f"its inputs are {came([*spec.inputs])}; expected {came(spec.aliases)}")
    for alias, own in spec.inputs.items():
        check_spec(own)
        wide = pa.schema([f.with_name(f"{alias}_{f.name}") for f in spec.schemas[alias]])
        alone = replace(spec.options, schemas=own.schemas, orders=own.orders, bounds=own.bounds)
        if own != alone or own.condition is not None or not own.schemas[0].equals(wide) or len(own.schemas[1]):
            raise damaged(f"the input {alias!r} is not the one that is joined")
    if spec.condition is not None:
        check_expressions([spec.condition], spec.schemas)
        if spec.condition.type.kind not in ("bool", "null"):
            raise damaged(f"the condition is {spec.condition.type}; expected a bool")
    _views(spec.views if isinstance(spec.views, str) else [sorted(v) for v in spec.views], spec.aliases)
    flag(spec.allow_cross, "allow_cross")
    _connected(spec)


def alias_named(alias: Any, known: Sequence[str]) -> str:
    """Return the alias if it exists, or raise ProtocolError."""
    if not isinstance(alias, str) or alias not in known:
        hint = nearest(alias, known) if isinstance(alias, str) else ""
        raise ProtocolError(f"the input is {came(alias)}; expected one of {', '.join(map(repr, known))}{hint}")
    return alias
