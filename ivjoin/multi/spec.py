"""A join of many inputs, fully described: the condition, and each input alone with its orders and bounds."""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from ivjoin.expr.codec import decode, encode
from ivjoin.expr.conjuncts import conjuncts_of
from ivjoin.expr.nodes import LEFT, Node, columns_of, make, rewrite
from ivjoin.expr.types import from_arrow
from ivjoin.frontier.order import Order
from ivjoin.multi.shape.implied import of_two
from ivjoin.plan.derived.certain import certain
from ivjoin.plan.spec import JoinSpec

__all__ = ["MultiSpec", "Part", "wide_column", "widened"]

T = TypeVar("T")
_MOST_DERIVED = 32


@dataclass(frozen=True, slots=True)
class Part:
    """A conjunct of the condition, over the columns ``alias_name`` of one wide row, and the inputs that it reads."""

    node: Node
    aliases: frozenset[str]


@dataclass(frozen=True, eq=False)
class MultiSpec:
    """A join of many inputs, fully described."""

    schemas: dict[str, pa.Schema]  # by alias, in the order of the output
    condition: Node | None  # its columns have their alias as side
    inputs: dict[str, JoinSpec]  # each input alone, under its wide names ``alias_name``, as the left side
    views: str | tuple[frozenset[str], ...] = "auto"  # a word, or groups of aliases
    allow_cross: bool = False
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value that depends only on the spec and the key. It is made once, and callers must not change it."""
        found = self._derived.get(key)
        if found is None:
            if len(self._derived) >= _MOST_DERIVED:
                self._derived.clear()
            found = self._derived[key] = make()
        return found

    @property
    def aliases(self) -> list[str]:
        return list(self.schemas)

    @property
    def options(self) -> JoinSpec:
        """Return a spec with the options of the whole join: batch_size, on_late, timezone."""
        return next(iter(self.inputs.values()))

    def wide(self, alias: str) -> pa.Schema:
        """Return an input's schema with the names that its columns have in the output."""
        return self.inputs[alias].schemas[0]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([f for alias in self.schemas for f in self.wide(alias)])

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        if self.condition is None:
            return ()
        found = conjuncts_of(self.condition)
        return tuple(Part(widened(c), frozenset(n.params[0] for n in columns_of(c))) for c in found)

    @cached_property
    def certain(self) -> tuple[frozenset[Node], frozenset[Node]]:
        """Return columns over a wide row that are not NULL in any result, and falling floats that are not NaN."""
        never_null = frozenset(wide_column(f) for a in self.schemas for f in self.wide(a) if not f.nullable)
        conjuncts = tuple(p.node for p in self.parts)
        if not conjuncts:
            return never_null, frozenset()
        inputs = self.inputs.values() if self.options.on_late != "join" else ()
        bounds = {n: (low, high) for spec in inputs for n, low, high in spec.bounds[0]}
        falling = [
            o.node for spec in self.inputs.values() for o in spec.orders[0]
            if o.descending and o.node.type.kind == "float"
        ]
        present, numbers = certain(conjuncts, never_null, bounds, (*columns_of(*conjuncts), *falling))
        return never_null | {n for n in present if n.op == "column"}, numbers

    @cached_property
    def implied(self) -> tuple[Part, ...]:
        """Return the comparisons of two inputs that follow from conjuncts over three or more."""
        out: list[Part] = []
        for p in self.parts:
            if len(p.aliases) > 2:
                names = {a: frozenset(self.wide(a).names) for a in self.aliases if a in p.aliases}
                out += [Part(node, pair) for pair, node in of_two(p.node, names, *self.certain)]
        return tuple(out)

    @cached_property
    def as_json(self) -> dict[str, Any]:
        return {
            "schemas": {a: base64.b64encode(s.serialize().to_pybytes()).decode() for a, s in self.schemas.items()},
            "condition": encode(self.condition),
            "inputs": {alias: spec.as_json for alias, spec in self.inputs.items()},
            "views": self.views if isinstance(self.views, str) else [sorted(v) for v in self.views],
            "allow_cross": self.allow_cross,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> MultiSpec:
        schemas = {
            a: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) for a, text in saved["schemas"].items()
        }
        inputs = {alias: JoinSpec.from_json(spec) for alias, spec in saved["inputs"].items()}
        views = saved["views"]
        return cls(
            schemas, decode(saved["condition"]), inputs,
            views if isinstance(views, str) else tuple(frozenset(v) for v in views), saved["allow_cross"],
        )

    def of_columns(self, names: Sequence[str]) -> MultiSpec:
        """Return the same join without input columns that neither these output columns nor the condition need."""
        needed = {*names}
        for spec in self.inputs.values():
            nodes = [*(o.node for o in spec.orders[0]), *(n for n, _, _ in spec.bounds[0])]
            needed |= {c.params[1] for c in columns_of(*nodes)}
        needed |= {c.params[1] for c in columns_of(*(p.node for p in self.parts))}
        fields = {}
        for alias, schema in self.schemas.items():
            used = [f for f in schema if f"{alias}_{f.name}" in needed]
            fields[alias] = used or ([schema.field(0)] if len(schema) else [])
        return self._with_fields(fields)

    def with_present(self, names: Mapping[str, frozenset[str]]) -> MultiSpec:
        """Return the same join, with columns of inputs that are known to have no nulls."""
        return self._with_fields({
            alias: [f.with_nullable(False) if f.name in there else f for f in self.schemas[alias]]
            for alias, there in names.items()
        })

    def _with_fields(self, fields: Mapping[str, Sequence[pa.Field]]) -> MultiSpec:
        schemas, inputs = dict(self.schemas), dict(self.inputs)
        for alias, own in fields.items():
            schemas[alias] = pa.schema(own, metadata=schemas[alias].metadata)
            wide = pa.schema([f.with_name(f"{alias}_{f.name}") for f in own])
            inputs[alias] = replace(inputs[alias], schemas=(wide, inputs[alias].schemas[1]))
        return replace(self, schemas=schemas, inputs=inputs)

    def with_orders(self, orders: Mapping[str, tuple[Order, ...]]) -> MultiSpec:
        """Return the same join with other orders of some inputs, over wide names."""
        inputs = {a: replace(s, orders=(orders[a], ())) if a in orders else s for a, s in self.inputs.items()}
        return replace(self, inputs=inputs)


def wide_column(f: pa.Field) -> Node:
    return make("column", (), (LEFT, f.name), from_arrow(f.type))


def widened(node: Node, alias: str | None = None) -> Node:
    """Return an expression over columns ``alias.name``, or of one input, as one over ``alias_name`` of a wide row."""

    def wide(n: Node) -> Node | None:
        if n.op != "column":
            return None
        side, name = n.params
        return make("column", (), (LEFT, f"{side if alias is None else alias}_{name}"), n.type)

    return rewrite(node, wide)
