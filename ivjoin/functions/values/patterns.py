"""Text functions whose pattern or position may be a column, and distances. They have no interval rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ivjoin.errors import ConditionError
from ivjoin.expr.build import strings
from ivjoin.expr.build.arith import neg
from ivjoin.expr.build.coerce import as_int32
from ivjoin.expr.build.numeric import greatest
from ivjoin.expr.build.strings import as_string
from ivjoin.expr.kernels.cells import Cell, Consts, Kernel, combined, flagged, met, rows
from ivjoin.expr.kernels.columns import load
from ivjoin.expr.kernels.strings import like_regex
from ivjoin.expr.literals import is_literal, literal
from ivjoin.expr.nodes import Node, make
from ivjoin.expr.types import BOOL, INT32, STRING
from ivjoin.expr.words import string_text
from ivjoin.functions.records.record import (
    NO_NUMBER,
    NO_ORDER,
    TEXT_BOUNDS,
    Absent,
    Build,
    Meaning,
    Operator,
    call,
    of_texts,
)
from ivjoin.functions.records.rowwise import by_row
from ivjoin.functions.records.writing import ADD, COMPARE, Arg, called

__all__ = ["OPERATORS", "SPELLINGS", "ilike", "like", "rlike"]

_NO_TEXTS = Absent("SymPy does not have strings")
_DISTANCE = Absent("a range of strings does not bound the distance between them")
_LAST = (1 << 31) - 1


# Patterns


def _matching(regex: Callable[[str, str], str]) -> Callable[[Node, Consts], Kernel]:
    """Return a rule that searches each distinct pattern of a batch with Arrow. An invalid pattern is an error."""

    def rule(node: Node, consts: Consts) -> Kernel:
        import pyarrow.compute as pc

        escape = node.params[0] if node.params else ""

        def kernel(a: Cell, b: Cell) -> Cell:
            (x, ok, err), (p, ok2, err2) = a, b
            n = rows(x, p)
            ok, err = met(ok, ok2), combined(err, err2)
            valid = np.ones(n, dtype=bool) if ok is None else np.broadcast_to(ok, (n,))
            texts = x if len(x) == n else pa.concat_arrays([x] * n) if n else x.slice(0, 0)
            patterns = p.dictionary_encode()
            of = np.broadcast_to(pc.fill_null(patterns.indices, -1).to_numpy(zero_copy_only=False), (n,))
            out, bad = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
            for i, pattern in enumerate(patterns.dictionary.to_pylist()):
                at = np.flatnonzero((of == i) & valid)
                if pattern is None or not len(at):
                    continue
                try:
                    found = pc.match_substring_regex(texts.take(pa.array(at)), regex(pattern, escape))
                    out[at] = load(found, BOOL)[0]
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ConditionError):
                    bad[at] = True
            return out, ok if ok is None else valid, flagged(err, bad, ok)

        return kernel

    return rule


def _like_pattern(pattern: str, escape: str) -> str:
    strings.check_like(pattern, escape)
    return like_regex(pattern, escape)


def like(x: Node, pattern: Node, escape: str = "\\") -> Node:
    """Return ``x LIKE pattern``, where the pattern may be a column."""
    if is_literal(pattern) and pattern.params[0] is not None:
        return strings.like(x, strings.constant_text(pattern, "the pattern of LIKE"), escape)
    if len(escape) != 1:
        raise ConditionError(f"the ESCAPE of LIKE is one character, not {escape!r}")
    return make("like_column", (as_string(x, "LIKE"), as_string(pattern, "the pattern of LIKE")), (escape,), BOOL)


def ilike(x: Node, pattern: Node, escape: str = "\\") -> Node:
    """Return ``x ILIKE pattern``, which ignores case."""
    lower = partial(strings.of_text, "utf8_lower", "lower")
    if not is_literal(pattern):
        return like(lower(x), lower(pattern), escape)
    text = pattern.params[0]
    return like(lower(x), literal(None if text is None else str(text).lower(), STRING), escape)


def rlike(x: Node, pattern: Node) -> Node:
    """Return ``x RLIKE pattern``, where the pattern may be a column."""
    if is_literal(pattern) and pattern.params[0] is not None:
        return strings.rlike(x, strings.constant_text(pattern, "the pattern of RLIKE"))
    return make("rlike_column", (as_string(x, "RLIKE"), as_string(pattern, "the pattern of RLIKE")), (), BOOL)


def _escaped(make_like: Callable[[Node, Node, str], Node]) -> Build:
    return lambda a, z: make_like(
        a[0], a[1], strings.constant_text(a[2], "the escape of like") if len(a) > 2 else "\\"
    )


def _like_text(n: Node, arg: Arg) -> tuple[str, int]:
    (escape,) = n.params
    tail = "" if escape == "\\" else f" ESCAPE {string_text(escape)}"
    return f"{arg(0, ADD)} LIKE {arg(1, ADD)}{tail}", COMPARE


def _rlike_text(n: Node, arg: Arg) -> tuple[str, int]:
    return f"{arg(0, ADD)} RLIKE {arg(1, ADD)}", COMPARE


# Positions


def _part(text: str, position: int, count: int) -> str:
    """Return a substring as Spark's ``UTF8String.substringSQL``, which drops a part before the start of the text."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    return text[max(start, 0) : max(min(start + count, _LAST), 0)] if count > 0 else ""


def _substring(a: list[Node], zone: str) -> Node:
    if all(is_literal(n) and n.params[0] is not None for n in a[1:]):
        position = strings.constant_int(a[1], "the position of substring")
        return strings.substring(
            a[0], position, strings.constant_int(a[2], "the length of substring") if len(a) > 2 else None
        )
    count = as_int32(a[2], "the length of substring") if len(a) > 2 else literal(_LAST, INT32)
    return _at(a[0], as_int32(a[1], "the position of substring"), count)


def _at(x: Node, position: Node, count: Node) -> Node:
    return make("substring_at", (as_string(x, "substring"), position, count), (), STRING)


def _side(name: str, fixed: Callable[[Node, int], Node]) -> Build:
    def build(a: list[Node], zone: str) -> Node:
        if is_literal(a[1]) and a[1].params[0] is not None:
            return fixed(a[0], strings.constant_int(a[1], f"the second argument of {name}"))
        count = as_int32(a[1], f"the length of {name}")
        # The least int32 cannot be negated. It can be clipped, because a negative length always gives an empty text.
        back = neg(greatest(count, literal(-_LAST, INT32)))
        return _at(a[0], literal(1, INT32) if name == "left" else back, count)

    return build


# Distances


def _distance(a: str, b: str) -> int:
    """Return the Levenshtein distance in characters."""
    if len(a) < len(b):
        a, b = b, a
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def _within(a: str, b: str, most: int) -> int:
    """Return the distance, or -1 if it exceeds a threshold, which is the third argument in Spark."""
    if abs(len(a) - len(b)) > most:
        return -1
    found = _distance(a, b)
    return found if found <= most else -1


def _levenshtein(a: list[Node], zone: str) -> Node:
    texts = tuple(as_string(x, "levenshtein") for x in a[:2])
    return make("levenshtein", (*texts, *(as_int32(x, "the threshold of levenshtein") for x in a[2:])), (), INT32)


def _levenshtein_exact(node: Node, consts: Consts) -> Kernel:
    f: Any = _distance if len(node.args) == 2 else _within
    return by_row(f)(node, consts)


OPERATORS = (
    Operator(
        "like_column", {"*": Meaning(_matching(_like_pattern), TEXT_BOUNDS)},
        ("l.s LIKE r.u", "l.s LIKE r.u ESCAPE '!'"), _like_text, NO_ORDER, NO_NUMBER, sympy=_NO_TEXTS,
        calls=(of_texts(call("like", 2, 3, _escaped(like))),),
    ),
    Operator(
        "rlike_column", {"*": Meaning(_matching(lambda pattern, _: pattern), TEXT_BOUNDS)},
        ("l.s RLIKE r.u", "rlike(l.s, r.u)"), _rlike_text, NO_ORDER, NO_NUMBER, sympy=_NO_TEXTS,
        calls=(of_texts(call("rlike regexp_like regexp", 2, 2, lambda a, z: rlike(*a))),),
    ),
    Operator(
        "substring_at", {"*": Meaning(by_row(_part), TEXT_BOUNDS)},
        ("substring(l.s, r.n, r.m)", "substring(l.s, r.n)", "left(l.s, r.n)", "right(l.s, r.n)"),
        called("substring"), NO_ORDER, NO_NUMBER,
        calls=tuple(map(of_texts, (
            call("substring substr", 2, 3, _substring), call("left", 2, 2, _side("left", strings.left_part)),
            call("right", 2, 2, _side("right", strings.right_part)),
        ))), sympy=_NO_TEXTS,
    ),
    Operator(
        "levenshtein", {"*": Meaning(_levenshtein_exact, _DISTANCE)},
        ("levenshtein(l.s, r.u)", "levenshtein(l.s, r.u, 2)"), called("levenshtein"), NO_ORDER, NO_NUMBER,
        calls=(of_texts(call("levenshtein", 2, 3, _levenshtein)),), sympy=_NO_TEXTS,
    ),
)  # fmt: skip
SPELLINGS = (of_texts(call("ilike", 2, 3, _escaped(ilike))),)
