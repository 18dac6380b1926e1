"""Constructors of pattern matches, and of ``function`` nodes for string functions of pyarrow.compute."""

from __future__ import annotations

from typing import Any

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_text
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BINARY, BOOL, INT32, STRING, Type

__all__ = [
    "as_string", "check_like", "concat", "constant_int", "constant_text", "left_part", "length", "like", "lpad",
    "octet_length", "of_text", "repeat", "replace", "right_part", "rlike", "rpad", "substring",
]  # fmt: skip


def _function(name: str, args: tuple[Node, ...], options: tuple[Any, ...], type: Type) -> Node:
    return make("function", args, (name, *options), type)


def of_text(name: str, what: str, x: Node, *options: Any, type: Type = STRING) -> Node:
    """Return the pyarrow function ``name`` of a text. Error messages call it ``what``."""
    return _function(name, (as_string(x, what),), options, type)


def as_string(x: Node, what: str) -> Node:
    x = as_text(x, what)
    return cast(x, STRING) if x.type.kind == "binary" else x


def constant_text(x: Node, what: str) -> str:
    """Return the value of an option that must be a string constant."""
    if not is_literal(x) or x.type.kind != "string" or x.params[0] is None:
        raise UnsupportedError(f"{what} must be a string constant, not {x}")
    return str(x.params[0])


def constant_int(x: Node, what: str) -> int:
    """Return the value of an option that must be an int constant."""
    if not is_literal(x) or x.type.kind != "int" or x.params[0] is None:
        raise UnsupportedError(f"{what} must be a whole-number constant, not {x}")
    return int(x.params[0])


def like(x: Node, pattern: str, escape: str = "\\") -> Node:
    """Return ``x LIKE pattern``. ``%`` matches any text, and ``_`` matches one character."""
    check_like(pattern, escape)
    return make("like", (as_string(x, "LIKE"),), (pattern, escape), BOOL)


def check_like(pattern: str, escape: str) -> None:
    """Raise ConditionError if an escape precedes a character that needs no escape."""
    if len(escape) != 1:
        raise ConditionError(f"the ESCAPE of LIKE is one character, not {escape!r}")
    rest, i = pattern, 0
    while i < len(rest):
        if rest[i] == escape:
            if i + 1 >= len(rest) or rest[i + 1] not in ("%", "_", escape):
                raise ConditionError(f"in LIKE '{pattern}' the escape {escape!r} must precede %, _ or itself")
            i += 1
        i += 1


def rlike(x: Node, pattern: str) -> Node:
    """Return ``x RLIKE pattern``, which is TRUE if the regular expression (in RE2 syntax) matches anywhere in x."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise UnsupportedError(f"RE2 cannot read the regular expression '{pattern}': {e}") from e
    return of_text("match_substring_regex", "RLIKE", x, pattern, type=BOOL)


def length(x: Node) -> Node:
    """Return the number of characters of a string, or of bytes of a binary, as int32."""
    x = as_text(x, "length")
    return _function("binary_length" if x.type == BINARY else "utf8_length", (x,), (), INT32)


def octet_length(x: Node) -> Node:
    return _function("binary_length", (as_text(x, "octet_length"),), (), INT32)


def substring(x: Node, position: int, count: int | None = None) -> Node:
    """Return ``substring(x, position, count)``. Positions start at 1, and negative ones count from the end."""
    x = as_string(x, "substring")
    start = position - 1 if position > 0 else position
    if count is not None and count <= 0:
        return _function("utf8_slice_codeunits", (x,), (0, 0), STRING)
    stop = None if count is None else start + count
    if start == 0 and stop is not None and x.op == "function" and x.params[:2] == ("utf8_slice_codeunits", 0):
        if len(x.params) == 3 and x.params[2] <= stop:
            return x  # x is a substring of at most this length
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return _function("utf8_slice_codeunits", (x,), (start,) if stop is None else (start, stop), STRING)


def left_part(x: Node, count: int) -> Node:
    return substring(x, 1, count)


def right_part(x: Node, count: int) -> Node:
    return substring(x, 1, 0) if count <= 0 else substring(x, -count)


def replace(x: Node, search: str, replacement: str = "") -> Node:
    """Replace every ``search`` in x. An empty ``search`` changes nothing."""
    x = as_string(x, "replace")
    return x if not search else _function("replace_substring", (x,), (search, replacement), STRING)


def lpad(x: Node, width: int, fill: str = " ") -> Node:
    """Return ``lpad(x, width, fill)``, which cuts a longer x to the width."""
    return _padded("utf8_lpad", x, width, fill)


def rpad(x: Node, width: int, fill: str = " ") -> Node:
    return _padded("utf8_rpad", x, width, fill)


def _padded(name: str, x: Node, width: int, fill: str) -> Node:
    if len(fill) != 1:
        raise UnsupportedError(f"padding is supported with one character, not {fill!r}")
    cut = left_part(x, max(width, 0))
    return cut if width <= 0 else _function(name, (cut,), (width, fill), STRING)


def repeat(x: Node, count: int) -> Node:
    return of_text("binary_repeat", "repeat", x, max(count, 0))


def concat(*args: Node) -> Node:
    """Concatenate the arguments to a string, or to a binary if all are binaries. NULL if one is NULL."""
    if not args:
        return literal("")
    if all(a.type == BINARY for a in args):
        return args[0] if len(args) == 1 else _function("binary_join_element_wise", (*args, literal(b"")), (), BINARY)
    texts = tuple(as_string(a, "concat") for a in args)
    return texts[0] if len(texts) == 1 else _function("binary_join_element_wise", (*texts, literal("")), (), STRING)
