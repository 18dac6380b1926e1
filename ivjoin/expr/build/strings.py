"""Constructors of string functions: pattern matches, and ``function`` nodes for functions of pyarrow.compute."""

from __future__ import annotations

from typing import Any

from ivjoin.errors import ConditionError, UnsupportedError
from ivjoin.expr.build.casting import cast
from ivjoin.expr.build.coerce import as_text
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BINARY, BOOL, INT32, STRING, Type

__all__ = [
    "check_like", "concat", "constant_int", "constant_text", "contains", "endswith", "ilike", "initcap", "left_part",
    "length", "like", "lower", "lpad", "ltrim", "octet_length", "repeat", "replace", "reverse", "right_part", "rlike",
    "rpad", "rtrim", "startswith", "substring", "trim", "upper",
]  # fmt: skip


def _function(name: str, args: tuple[Node, ...], options: tuple[Any, ...], type: Type) -> Node:
    return make("function", args, (name, *options), type)


def _text(x: Node, what: str) -> Node:
    x = as_text(x, what)
    return cast(x, STRING) if x.type.kind == "binary" else x


def constant_text(x: Node, what: str) -> str:
    """Return the text of a string constant that an option needs."""
    if not is_literal(x) or x.type.kind != "string" or x.params[0] is None:
        raise UnsupportedError(f"{what} must be a string constant, not {x}")
    return str(x.params[0])


def constant_int(x: Node, what: str) -> int:
    """Return the value of an int constant that an option needs."""
    if not is_literal(x) or x.type.kind != "int" or x.params[0] is None:
        raise UnsupportedError(f"{what} must be a whole-number constant, not {x}")
    return int(x.params[0])


def like(x: Node, pattern: str, escape: str = "\\") -> Node:
    """Return ``x LIKE pattern``: ``%`` stands for any text, ``_`` for one character."""
    check_like(pattern, escape)
    return make("like", (_text(x, "LIKE"),), (pattern, escape), BOOL)


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


def ilike(x: Node, pattern: str, escape: str = "\\") -> Node:
    """Return LIKE without regard to case."""
    return like(lower(x), pattern.lower(), escape)


def rlike(x: Node, pattern: str) -> Node:
    """Return ``x RLIKE pattern``: whether the regular expression (RE2's syntax) matches anywhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise UnsupportedError(f"RE2 cannot read the regular expression '{pattern}': {e}") from e
    return _function("match_substring_regex", (_text(x, "RLIKE"),), (pattern,), BOOL)


def startswith(x: Node, pattern: str) -> Node:
    return _function("starts_with", (_text(x, "startswith"),), (pattern,), BOOL)


def endswith(x: Node, pattern: str) -> Node:
    return _function("ends_with", (_text(x, "endswith"),), (pattern,), BOOL)


def contains(x: Node, pattern: str) -> Node:
    return _function("match_substring", (_text(x, "contains"),), (pattern,), BOOL)


def upper(x: Node) -> Node:
    return _function("utf8_upper", (_text(x, "upper"),), (), STRING)


def lower(x: Node) -> Node:
    return _function("utf8_lower", (_text(x, "lower"),), (), STRING)


def initcap(x: Node) -> Node:
    return _function("utf8_title", (_text(x, "initcap"),), (), STRING)


def reverse(x: Node) -> Node:
    return _function("utf8_reverse", (_text(x, "reverse"),), (), STRING)


def length(x: Node) -> Node:
    """Return the characters of a string, or the bytes of a binary; int32."""
    x = as_text(x, "length")
    return _function("binary_length" if x.type == BINARY else "utf8_length", (x,), (), INT32)


def octet_length(x: Node) -> Node:
    return _function("binary_length", (as_text(x, "octet_length"),), (), INT32)


def trim(x: Node, characters: str = " ") -> Node:
    """Remove the given characters (spaces) at both ends."""
    return _function("utf8_trim", (_text(x, "trim"),), (characters,), STRING)


def ltrim(x: Node, characters: str = " ") -> Node:
    return _function("utf8_ltrim", (_text(x, "ltrim"),), (characters,), STRING)


def rtrim(x: Node, characters: str = " ") -> Node:
    return _function("utf8_rtrim", (_text(x, "rtrim"),), (characters,), STRING)


def substring(x: Node, position: int, count: int | None = None) -> Node:
    """Return ``substring(x, position, count)``: positions start at 1, negative ones count from the end."""
    x = _text(x, "substring")
    start = position - 1 if position > 0 else position
    if count is not None and count <= 0:
        return _function("utf8_slice_codeunits", (x,), (0, 0), STRING)
    stop = None if count is None else start + count
    if start == 0 and stop is not None and x.op == "function" and x.params[:2] == ("utf8_slice_codeunits", 0):
        if len(x.params) == 3 and x.params[2] <= stop:
            return x  # has at most that length
    if start < 0 and stop is not None and stop >= 0:
        stop = None
    return _function("utf8_slice_codeunits", (x,), (start,) if stop is None else (start, stop), STRING)


def left_part(x: Node, count: int) -> Node:
    return substring(x, 1, count)


def right_part(x: Node, count: int) -> Node:
    return substring(x, 1, 0) if count <= 0 else substring(x, -count)


def replace(x: Node, search: str, replacement: str = "") -> Node:
    """Replace every ``search`` in x. An empty ``search`` changes nothing."""
    x = _text(x, "replace")
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
    return _function("binary_repeat", (_text(x, "repeat"),), (max(count, 0),), STRING)


def concat(*args: Node) -> Node:
    """Return all arguments as one string, or one binary if all are binaries; NULL if one is null."""
    if not args:
        return literal("")
    if all(a.type == BINARY for a in args):
        return args[0] if len(args) == 1 else _function("binary_join_element_wise", (*args, literal(b"")), (), BINARY)
    texts = tuple(_text(a, "concat") for a in args)
    return texts[0] if len(texts) == 1 else _function("binary_join_element_wise", (*texts, literal("")), (), STRING)
