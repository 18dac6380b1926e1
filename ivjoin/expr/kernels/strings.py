"""LIKE, and the string functions of pyarrow.compute that a condition can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ivjoin.errors import UnsupportedError
from ivjoin.expr.kernels.cells import LARGE, Cell, Consts, Kernel, combined, dtype_of, of_values, unsupported
from ivjoin.expr.kernels.columns import load
from ivjoin.expr.nodes import Node

__all__ = ["function", "like", "like_regex"]


def like_regex(pattern: str, escape: str) -> str:
    """Return the RE2 expression of a LIKE pattern. ``%`` matches any text, and ``_`` matches one character."""
    out, characters = [], iter(pattern)
    for c in characters:
        if c == escape:
            out.append(_quoted(next(characters, escape)))
        else:
            out.append(".*" if c == "%" else "." if c == "_" else _quoted(c))
    return r"(?s)\A" + "".join(out) + r"\z"


def _quoted(c: str) -> str:
    return c if c.isalnum() or c == "_" or ord(c) > 127 else "\\" + c if c > " " else f"\\x{{{ord(c):x}}}"


def like(node: Node, _: Consts) -> Kernel:
    import pyarrow.compute as pc

    if node.args[0].type.kind != "string":
        raise unsupported(node)
    pattern, escape = node.params
    if escape in pattern or "\\" in pattern:  # Arrow misreads a backslash in a pattern without wildcards
        f, pattern = pc.match_substring_regex, like_regex(pattern, escape)
    else:
        f = pc.match_like
    return of_values(lambda v: load(f(v, pattern), node.type)[0])


def function(node: Node, consts: Consts) -> Kernel:
    import pyarrow.compute as pc

    name, *options = node.params
    f = getattr(pc, name, None)
    if f is None:
        raise unsupported(node, f"pyarrow.compute has no {name}")
    try:  # call it with no rows, so that a wrong option raises before the first batch
        f(*(_sample(a) for a in node.args), *options)
    except (pa.ArrowException, TypeError, ValueError) as e:
        raise UnsupportedError(f"{node} cannot be evaluated: {e}") from e
    alone = all(c is not None for c in consts)
    if name in _BY_PYTHON:
        f = _unless_ascii(f, _BY_PYTHON[name])

    def kernel(*cells: Cell) -> Cell:
        error = None
        args = []
        for (v, ok, err), constant in zip(cells, consts):
            error = combined(error, err)
            args.append(v[0] if constant is not None and not alone else v)
            if not isinstance(args[-1], (pa.Array, pa.Scalar)):
                args[-1] = pa.array(v, mask=None if ok is None else ~ok) if not constant or alone else v[0].item()
        v, valid, _ = load(f(*args, *options), node.type)
        return v, valid, error

    return kernel


def _initcap(s: str) -> str:
    """Capitalize the first letter of each word. Words are separated by spaces, and other letters become lower case."""
    return " ".join(w[:1].title() + w.lower()[len(w[:1].lower()) :] for w in s.split(" "))


# Java and Python map "straße" to "STRASSE". Arrow maps each character to one character, and has other word boundaries.
_BY_PYTHON: dict[str, Callable[[str], str]] = {
    "utf8_upper": str.upper, "utf8_lower": str.lower, "utf8_title": _initcap,
}  # fmt: skip


def _unless_ascii(f: Any, exact: Callable[[str], str]) -> Any:
    import pyarrow.compute as pc

    def mapped(array: Any) -> Any:
        if exact is not _initcap and pc.all(pc.string_is_ascii(array)).as_py() is not False:
            return f(array)
        return pa.array([None if s is None else exact(s) for s in array.to_pylist()], type=pa.large_string())

    return mapped


def _sample(a: Node) -> Any:
    if a.type.kind in LARGE:
        return pa.array([], type=LARGE[a.type.kind])
    if a.type.kind == "null":
        return pa.nulls(0)
    if a.type.kind in ("decimal", "opaque"):
        raise UnsupportedError(f"{a} of type {a.type} is not an argument of a string function")
    return pa.array([], type=pa.from_numpy_dtype(dtype_of(a.type)))
