"""Three-valued logic, IS NULL, COALESCE, CASE, IN, least and greatest.

Each row is evaluated lazily from left to right. ``FALSE AND <error>`` is FALSE, ``<error> AND FALSE`` is an error, and
OR is similar. A branch of a CASE that a row does not take causes no error in that row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.expr.kernels.cells import (
    Cell,
    Consts,
    Kernel,
    Mask,
    Rule,
    absent,
    combined,
    const_values,
    of_values,
    present,
    repeated,
    rows,
    unsupported,
)
from ivjoin.expr.kernels.compare import comparer
from ivjoin.expr.nodes import Node

__all__ = ["case", "choose", "coalesce", "connective", "extreme", "in_", "is_nan", "is_null", "not_"]

_FEW = 8  # IN lists up to this size are compared with each constant in turn


def connective(decisive: bool) -> Rule:
    """Return the rule of AND (decided by FALSE) or OR (decided by TRUE)."""
    plain = np.logical_or if decisive else np.logical_and

    def kernel(*cells: Cell) -> Cell:
        value, ok, err = cells[0]
        if all(c[1] is None and c[2] is None for c in cells):
            for c in cells[1:]:
                value = plain(value, c[0])
            return value, None, None
        n = rows(*(c[0] for c in cells))
        decided: np.ndarray = np.zeros(n, dtype=bool)
        null: Mask = None
        err = None
        for v, valid, error in cells:
            known = present((v, valid, error))
            deciding = v if decisive else ~v
            if known is not None:
                deciding = deciding & known
            if error is not None:
                new = error & ~decided
                err = new if err is None else err | new
            # A row with an earlier error is an error, whatever the later arguments are.
            decided = decided | (deciding if err is None else deciding & ~err)
            if valid is not None:
                null = ~valid if null is None else null | ~valid
        ok = None if null is None else decided | ~null
        return (decided if decisive else ~decided), ok, _some(err)

    def rule(node: Node, consts: Consts) -> Kernel:
        _need(node, "bool", *node.args)
        return kernel

    return rule


def _some(mask: Mask) -> Mask:
    return mask if mask is not None and np.count_nonzero(mask) else None


def _need(node: Node, kind: str, *args: Node) -> None:
    for a in args:
        if a.type.kind not in (kind, "null"):
            raise unsupported(node, f"expected {kind} arguments")


def not_(node: Node, _: Consts) -> Kernel:
    _need(node, "bool", *node.args)
    return of_values(np.logical_not)


def is_null(node: Node, _: Consts) -> Kernel:
    def kernel(a: Cell) -> Cell:
        v, ok, err = a
        return absent(ok, len(v)), None, err

    return kernel


def is_nan(node: Node, _: Consts) -> Kernel:
    _need(node, "float", *node.args)

    def kernel(a: Cell) -> Cell:
        v, ok, err = a
        nan = v != v
        return (nan if ok is None else nan & ok), None, err  # in Spark, isnan(NULL) is FALSE

    return kernel


def choose(n: int, picks: list[tuple[np.ndarray, Cell]], default: Cell) -> Cell:
    """Return a cell that takes each row from the first alternative whose mask is set, else from the default."""
    cells = [*(c for _, c in picks), default]
    valid: Mask = None
    if any(ok is not None for _, ok, _ in cells):
        valid = _pick(n, [(m, _full(c[1], n, True)) for m, c in picks], _full(default[1], n, True))
    error: Mask = None
    if any(err is not None for *_, err in cells):
        error = _some(_pick(n, [(m, _full(c[2], n, False)) for m, c in picks], _full(default[2], n, False)))
    return _pick(n, [(m, c[0]) for m, c in picks], default[0]), valid, error


def _full(mask: Mask, n: int, fill: bool) -> np.ndarray:
    return np.full(n, fill) if mask is None else np.broadcast_to(mask, n)


def _pick(n: int, picks: list[tuple[np.ndarray, Any]], default: Any) -> Any:
    if isinstance(default, np.ndarray):
        out = repeated(default, n)
        for mask, v in reversed(picks):
            out = np.where(mask, v, out)
        return out
    import pyarrow.compute as pc

    text = repeated(default, n)
    for mask, v in reversed(picks):
        text = pc.if_else(pa.array(mask), v if len(v) == n else v[0], text)
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def _choosable(node: Node, *branches: Node) -> None:
    if node.type.kind == "opaque":
        raise unsupported(node)
    if any(b.type != node.type for b in branches):
        raise unsupported(node, "the branches have the type of the result")


def coalesce(node: Node, consts: Consts) -> Kernel:
    _choosable(node, *node.args)

    def kernel(*cells: Cell) -> Cell:
        n = rows(*(c[0] for c in cells))
        # An error decides a row like a value, so later arguments are not needed.
        picks = []
        for v, ok, err in cells[:-1]:
            decided = np.ones(n, dtype=bool) if ok is None else ok if err is None else ok | err
            picks.append((decided, (v, ok, err)))
            if ok is None:
                return choose(n, picks[:-1], (v, ok, err))
        return choose(n, picks, cells[-1])

    return kernel


def case(node: Node, consts: Consts) -> Kernel:
    _need(node, "bool", *node.args[:-1:2])
    _choosable(node, *node.args[1:-1:2], node.args[-1])

    def kernel(*cells: Cell) -> Cell:
        n = rows(*(c[0] for c in cells))
        undecided = np.ones(n, dtype=bool)
        error: Mask = None
        picks = []
        for i in range(0, len(cells) - 1, 2):
            when, then = cells[i], cells[i + 1]
            known = present(when)
            true = when[0] if known is None else when[0] & known
            if when[2] is not None:
                new = when[2] & undecided
                error = new if error is None else error | new
                undecided = undecided & ~new
            true = true & undecided
            undecided = undecided & ~true
            picks.append((true, then))
        v, ok, err = choose(n, picks, cells[-1])
        if error is not None and err is not None:
            err = err & ~error
        return v, ok, _some(combined(err, error))

    return kernel


def in_(node: Node, consts: Consts) -> Kernel:
    """Return the kernel of IN with constants. Short lists are compared one by one, long lists by binary search."""
    import pyarrow.compute as pc

    t = node.args[0].type
    if not t.is_ordered:
        raise unsupported(node)
    values = [v for v in node.params if v is not None]
    nulls, eq, text = len(values) < len(node.params), comparer("eq", t.kind), t.kind in ("string", "binary")
    listed: Any = const_values(values, t)
    if not text and len(values) > _FEW:
        listed = np.unique(listed)

    def kernel(a: Cell) -> Cell:
        v, ok, err = a
        if text:
            found = pc.is_in(v, value_set=listed).to_numpy(zero_copy_only=False)
        elif len(listed) > _FEW:
            # A sorted list contains a value if the value is at its insertion point. NaN sorts last.
            found = eq(listed[np.minimum(np.searchsorted(listed, v), len(listed) - 1)], v)
        else:
            found = np.zeros(len(v), dtype=bool)
            for i in range(len(listed)):
                found = found | eq(v, listed[i : i + 1])
        if nulls:
            ok = found if ok is None else ok & found
        return found, ok, err

    return kernel


def extreme(greatest: bool) -> Rule:
    """Return the rule of least or greatest, which skip nulls. NaN is the greatest value."""

    def rule(node: Node, consts: Consts) -> Kernel:
        _choosable(node, *node.args)
        kind = node.type.kind
        if kind in ("string", "binary"):
            before = comparer("gt" if greatest else "lt", kind)
        elif kind == "float":
            pair: Any = np.maximum if greatest else np.fmin  # fmin ignores NaN, and maximum returns it
        else:
            pair = np.maximum if greatest else np.minimum

        def better(x: Any, y: Any) -> Any:
            if kind not in ("string", "binary"):
                return pair(x, y)
            n = rows(x, y)
            mask = before(x if len(x) == n else x[0], y if len(y) == n else y[0])
            return _pick(n, [(mask, x)], y)

        def kernel(*cells: Cell) -> Cell:
            v, ok, err = cells[0]
            for w, ok2, err2 in cells[1:]:
                err = combined(err, err2)
                if ok is None and ok2 is None:
                    v = better(v, w)
                    continue
                n = rows(v, w)
                have, have2 = ~absent(ok, n), ~absent(ok2, n)
                v = _pick(n, [(have & have2, better(v, w)), (have, v)], w)
                ok = have | have2
            return v, ok, err

        return kernel

    return rule
