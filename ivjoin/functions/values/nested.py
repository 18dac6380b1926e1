"""Fields of structs, sizes and elements of arrays, and sort keys of nested values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.expr.build import nested
from ivjoin.expr.kernels.cells import Cell, Consts, Kernel, combined, met, of_values, repeated, rows
from ivjoin.expr.kernels.columns import load
from ivjoin.expr.kernels.compare import comparer
from ivjoin.expr.nodes import Node
from ivjoin.expr.words import quoted
from ivjoin.functions.records.record import (
    NO_NUMBER,
    NO_ORDER,
    NOT_LINEAR,
    Absent,
    Call,
    Meaning,
    Operator,
    call,
    never,
    one,
)
from ivjoin.functions.records.writing import ATOM, Arg, called
from ivjoin.functions.rules.domain import NULL
from ivjoin.functions.rules.rule import Place, Rule
from ivjoin.functions.rules.state import State

__all__ = ["OPERATORS", "SPELLINGS"]

_NO_NESTED = Absent("SymPy does not have nested values")
_UNSEEN = Absent("the interval rules do not look inside nested values")


def _field(node: Node, _: Consts) -> Kernel:
    import pyarrow.compute as pc

    (name,) = node.params

    def kernel(a: Cell) -> Cell:
        array, _, err = a
        v, valid, _ = load(pc.struct_field(array, [array.type.get_field_index(name)]), node.type)
        return v, valid, err

    return kernel


def _field_text(n: Node, arg: Arg) -> tuple[str, int]:
    return f"{arg(0, ATOM)}.{quoted(n.params[0])}", ATOM


def _size(node: Node, _: Consts) -> Kernel:
    return of_values(lambda array: np.diff(nested.as_list(array).offsets.to_numpy()).astype(np.int32))


def _size_rule(p: Place) -> Rule:
    i, a = p.i, p.at[0]
    most = p.node.type.limits[1]

    def down(s: State) -> None:
        if not s.D[i][2] & NULL:
            s.drop_flags(a, 0)

    return Rule(lambda D: (0, most, D[a][2] & NULL), down)


def _contains(node: Node, _: Consts) -> Kernel:
    import pyarrow.compute as pc

    t = node.args[1].type
    equal = comparer("eq", t.kind)

    def kernel(a: Cell, b: Cell) -> Cell:
        (array, ok, err), (v, ok2, err2) = a, b
        n = rows(array, v)
        array, valid = nested.as_list(repeated(array, n)), met(ok, ok2)
        parents = pc.list_parent_indices(array).to_numpy()
        elements, there, _ = load(pc.list_flatten(array), t)
        wanted = v if len(v) == 1 else v.take(pa.array(parents)) if isinstance(v, pa.Array) else v[parents]
        hit = np.zeros(len(parents), dtype=bool)
        if len(parents):
            sought = wanted[0] if isinstance(wanted, pa.Array) and len(v) == 1 else wanted
            hit = np.broadcast_to(equal(elements, sought), (len(parents),))
        found, missing = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        if there is not None:
            missing[parents[~there]] = True
            hit = hit & there
        found[parents[hit]] = True
        valid = found | ~missing if valid is None else valid & (found | ~missing)
        return found, valid, combined(err, err2)

    return kernel


def _sort_key(node: Node, _: Consts) -> Kernel:
    return of_values(lambda array: pa.array(nested.sort_key_values(array), type=pa.large_binary()))


OPERATORS = (
    Operator(
        "field", {"*": Meaning(_field, _UNSEEN)}, ("l.st.q", "l.st.inner.w", "l.st.name"),
        _field_text, NO_ORDER, NOT_LINEAR, sympy=_NO_NESTED, passes_null=never,
    ),
    Operator(
        "size", {"*": Meaning(_size, _size_rule)}, ("size(l.xs)", "size(l.mp)"),
        called("size"), NO_ORDER, NOT_LINEAR,
        calls=(one("size cardinality array_size", nested.size),), sympy=_NO_NESTED,
    ),
    Operator(
        "array_contains", {"*": Meaning(_contains, _UNSEEN)},
        ("array_contains(l.xs, r.a)", "array_contains(l.xs, 3)", "array_contains(l.ss, r.s)"),
        called("array_contains"), NO_ORDER, NO_NUMBER,
        calls=(call("array_contains", 2, 2, lambda a, z: nested.array_contains(a[0], a[1], z)),), sympy=_NO_NESTED,
        passes_null=never,
    ),
    Operator(
        "sort_key", {"*": Meaning(_sort_key, _UNSEEN)},
        ("l.st = r.st", "l.st < r.st", "l.xs <=> r.xs", "l.xs >= r.xs", "l.md <> r.md"),
        lambda n, arg: (arg(0, ATOM), ATOM), NO_ORDER, NO_NUMBER, sympy=_NO_NESTED, inner=True,
    ),
)  # fmt: skip
SPELLINGS: tuple[Call, ...] = ()
