"""Share one plan among joins of small tables if their conditions differ only in constants.

Planning such a join takes longer than running it. This module turns each constant into a column with the same value in
every row. The plan then depends only on the shape of the condition and the types. An expression over a column has the
same meaning as over a literal of the same type. If expressions differ in anything else, the plan is not shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin import conditions, expr
from ivjoin.conditions.read.constants import names_left, shape_of, slot
from ivjoin.errors import IvjoinError
from ivjoin.expr import build, ops
from ivjoin.expr.nodes import COMPARISONS, Node, walk
from ivjoin.expr.timezones import zone_of_call
from ivjoin.expr.types import Type, from_arrow, to_arrow
from ivjoin.plan.cache import is_known, shared
from ivjoin.plan.question import on_pairs
from ivjoin.stream.join_stream import JoinStream
from ivjoin.stream.sources.inputs import Source

if TYPE_CHECKING:
    from ivjoin.expr.literals import Params
    from ivjoin.plan.question import Keys

__all__ = ["Question", "condition_of", "separated", "shared_stream"]

_MOST_ROWS = 2048  # rows of all inputs; up to this number, a wider search along the band costs less than a plan
_TRIES = 3  # attempts to plan a shape; a constant such as 0 may vanish from the condition
_KINDS = ("int", "float", "decimal", "string", "binary", "bool", "date", "timestamp", "time", "duration")

_PLAIN = COMPARISONS | {"column", "literal", ops.CAST, ops.ADD, ops.SUB, ops.NEG, ops.AND, ops.OR, ops.NOT, ops.IS_NULL}

Read = Callable[[Any, Mapping[str, pa.Schema]], "Node | None"]


class _Shape:
    """Cached facts about a shape: whether it occurred before, and the columns for its constants.

    ``columns`` has for each constant the input that gets the column, the type of the cast, and the column. ``schemas``
    are the inputs with these columns.
    """

    __slots__ = ("columns", "met", "schemas", "tries")

    def __init__(self) -> None:
        self.met, self.tries = False, _TRIES
        self.schemas: dict[str, pa.Schema] = {}
        self.columns: list[tuple[str, Type, pa.Field]] | None = None


class Question:
    """A join whose constants are columns of its inputs.

    ``params`` has the values of names that the condition still reads. ``slots`` are the names of the columns, from
    :func:`~ivjoin.conditions.read.constants.slot`.
    """

    __slots__ = ("condition", "inputs", "params", "slots")

    def __init__(
        self, condition: Any, params: dict[str, Any], inputs: dict[str, Source], slots: frozenset[str]
    ) -> None:
        self.condition, self.params, self.inputs, self.slots = condition, params, inputs, slots


def condition_of(
    condition: Any, schemas: tuple[pa.Schema, pa.Schema], on: Keys | None, timezone: str | None, params: Params | None
) -> Node | None:
    scope = expr.Scope(*schemas, on=on_pairs(on, schemas), params=params)
    return conditions.condition(condition, scope, timezone=zone_of_call(timezone))


def separated(
    inputs: Mapping[str, Source], condition: Any, params: Mapping[str, Any] | None, also: Mapping[str, Any],
    asked: Mapping[str, Any], read: Read, zone: str,
) -> Question | None:
    """Return the join with its constants turned into columns.

    Conditions that differ only in constants then share a plan.

    Return None for the first condition of a shape.

    - ``inputs`` are given by side or alias.
    - ``also`` are further arguments that determine the meaning of the condition.
    - ``asked`` are all arguments of the join as written.
    - ``read`` reads a condition over the schemas of the inputs.
    - ``zone`` is the zone of local times.
    """
    if params is not None and not (isinstance(params, Mapping) and all(map(_is_name, params))):
        return None
    if condition is None or sum(s.rows or 0 for s in inputs.values()) > _MOST_ROWS:
        return None
    schemas = {name: s.schema for name, s in inputs.items()}
    if not all(s.in_memory for s in inputs.values()) or is_known(schemas.values(), asked):
        return None
    found = shape_of(condition, params)
    if found is None:
        return None
    shape, constants = found
    types = [c.type for c in constants]
    below = [_is_below(c) for c in constants]
    left = {n: v for n, v in (params or {}).items() if n in names_left(shape)}
    asked = {**also, "names": list(schemas), "shape": shape, "types": types, "below": below, "params": left}
    known = shared(schemas.values(), asked, _Shape)
    if not known.met or not known.tries:
        known.met = True  # most joins run once, and a shape takes longer to plan
        return None
    if known.columns is None:
        known.tries -= 1
        known.columns = _columns(shape, condition, constants, schemas, read, zone)
        if known.columns is None:
            return None
        for name, schema in schemas.items():
            fields = [field for of, _, field in known.columns if of == name]
            known.schemas[name] = pa.schema([*schema, *fields], metadata=schema.metadata)
    added: dict[str, list[pa.Scalar]] = {name: [] for name in inputs}
    try:
        for c, (name, to, field) in zip(constants, known.columns, strict=True):
            node = c if c.type == to else build.cast(c, to, zone)
            if node.op != "literal" or node.params[0] is None:
                return None  # the value does not fit
            value = node.params[0]
            if to.kind == "decimal":
                value = Decimal(value).scaleb(-to.scale)
            added[name].append(pa.scalar(value, field.type))
    except IvjoinError:
        return None
    widened = {name: _with(s, known.schemas[name], added[name]) for name, s in inputs.items()}
    return Question(shape, left, widened, frozenset(field.name for _, _, field in known.columns))


def _columns(
    shape: Any, condition: Any, constants: list[Node], schemas: Mapping[str, pa.Schema], read: Read, zone: str
) -> list[tuple[str, Type, pa.Field]] | None:
    """Return the column for each constant, or None if the plan of the shape would differ from the plan as written."""
    given = {slot(i): c for i, c in enumerate(constants)}
    first = next(iter(schemas))
    if any(n in given for s in schemas.values() for n in s.names):
        return None

    def moved(types: Iterable[Type]) -> Node | None:
        fields = [pa.field(n, to_arrow(t), nullable=False) for n, t in zip(given, types, strict=True)]
        return read(shape, {**schemas, first: pa.schema([*schemas[first], *fields])})

    if not all(_is_plain(c.type) for c in constants):
        return None
    try:
        written, found = read(condition, schemas), moved(c.type for c in constants)
        literals: dict[str, Node] = {}
        if written is None or found is None or not _agree(found, written, literals) or len(literals) < len(given):
            return None
        types = [literals[n].type for n in given]
        if not all(_is_plain(t) for t in types):
            return None
        if any(build.cast(c, t, zone) is not literals[n] for (n, c), t in zip(given.items(), types, strict=True)):
            return None
        found = moved(types)
        if found is None or not _agree(found, written, literals, False):
            return None
        if any(map(_is_below, constants)) and any(n.op not in _PLAIN for n in walk(found)):
            return None  # for example, abs(x) <= -1 is never true: a column would exclude rows with errors
    except IvjoinError:
        return None
    inputs = _inputs(found, given)
    return [
        (inputs[n], t, pa.field(n, to_arrow(t), nullable=False)) for n, t in zip(given, types, strict=True)
    ] if len(inputs) == len(given) else None


def _is_below(constant: Node) -> bool:
    return isinstance(constant.params[0], (int, float)) and constant.params[0] < 0


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given.isidentifier()


def _is_plain(t: Type) -> bool:
    return t.kind in _KINDS and from_arrow(to_arrow(t)) == t


def _agree(moved: Node, written: Node, literals: dict[str, Node], casts: bool = True) -> bool:
    """Return whether an expression over columns of constants equals the one over literals. Collect the literals.

    ``casts``: whether the expression may cast a column of a constant.
    """
    if moved is written:
        return True
    if written.op == "literal":
        while casts and moved.op == ops.CAST:
            moved = moved.args[0]
        return moved.op == "column" and literals.setdefault(moved.params[1], written) is written
    return (
        (moved.op, moved.params, moved.type) == (written.op, written.params, written.type)
        and len(moved.args) == len(written.args)
        and all(_agree(a, b, literals, casts) for a, b in zip(moved.args, written.args, strict=True))
    )


def _inputs(root: Node, slots: Iterable[str]) -> dict[str, str]:
    """Return an input for each column of a constant. The expression around the constant reads this input."""
    inputs: dict[str, str] = {}
    reads: dict[Node, str | None] = {}
    waits: dict[Node, frozenset[str]] = {}
    for n in walk(root):
        own = n.op == "column"
        if own and n.params[1] in slots:
            reads[n], waits[n] = None, frozenset((n.params[1],))
            continue
        reads[n] = n.params[0] if own else next((x for a in n.args if (x := reads[a]) is not None), None)
        waits[n] = frozenset().union(*(waits[a] for a in n.args))
        of = reads[n]
        if of is not None:
            inputs = dict.fromkeys(waits[n], of) | inputs
            waits[n] = frozenset()
    return inputs


def _with(source: Source, schema: pa.Schema, added: Sequence[pa.Scalar]) -> Source:
    """Return a table in memory with additional columns, which have one value each."""
    if not added:
        return source
    table = source.table()
    columns = [pa.repeat(value, table.num_rows) for value in added]
    table = pa.Table.from_arrays([*table.columns, *columns], schema=schema)
    out = Source(schema, lambda names: table if names is None else table.select(names), True, table.num_rows)
    out.in_memory = True
    return out


def shared_stream(inner: JoinStream, written: Callable[[Sequence[str] | None], JoinStream]) -> JoinStream:
    """Return the output of a join whose constants are columns. The output does not contain these columns.

    ``written`` starts the join as written, to explain it and to raise its errors.
    """

    def batches(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun = False
        try:
            for batch in found:
                begun = True
                yield batch
        except IvjoinError:
            for batch in written(None):  # raises the error with the text of the written condition
                if not begun:
                    yield batch
            if begun:
                raise

    stream = inner._changed(inner.schema, batches, written, True)
    stream._written, stream._bounded = written, True
    return stream
