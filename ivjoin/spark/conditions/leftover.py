"""Conjuncts that the operator cannot evaluate: in an inner join, Spark applies them as a filter to the joined rows.

::

    l.ts BETWEEN r.ts - INTERVAL 5 SECONDS AND r.ts  AND  levenshtein(l.name, r.name) < 3
    \\_____________ the operator: joins, evicts ____/       \\_ Spark: filters the pairs _/

An inner join contains the pairs for which every conjunct is TRUE, so the conjuncts may be evaluated in two places. For
any other join type, the operator must know whether the *whole* condition was TRUE for a row, so the condition cannot be
split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from ivjoin.plan.join_plan import JoinPlan

__all__ = ["conjuncts", "rows_where", "tokens"]

_TOKEN = re.compile(
    r"""(?P<skip> \s+ | --[^\n]* | /\*.*?\*/ )
      | (?P<quoted> (?<![\w.`])[rR]'[^']*' | (?<![\w.`])[rR]"[^"]*"
          | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*` )
      | (?P<word> \w+ )
      | (?P<open> [(\[] )
      | (?P<close> [)\]] )
      | (?P<other> . )""",
    re.VERBOSE | re.DOTALL,
)
_QUALIFIERS = {"l": 0, "left": 0, "r": 1, "right": 1}


def conjuncts(text: str) -> list[str]:
    """Return SQL text split at its outermost ANDs, without parentheses around all of it.

    If it is not certain where to split, the text is not split. Fewer rows are then evicted, and the result is the same.
    """
    text = text.strip()
    inner = _without_parentheses(text)
    if inner is not None:
        return conjuncts(inner)
    parts, start, bounds, branches = [], 0, 0, 0
    for word, begin, end in _outermost_words(text):
        if word == "OR" and not branches:
            return [text]
        if word == "CASE":
            branches += 1
        elif word == "END" and branches:
            branches -= 1
        elif word == "BETWEEN" and not branches:
            bounds += 1
        elif word == "AND" and not branches:
            if bounds:
                bounds -= 1
                continue
            parts.append(text[start:begin])
            start = end
    if not parts:
        return [text]
    return [c for part in [*parts, text[start:]] for c in conjuncts(part)]


def tokens(text: str) -> list[str]:
    """Return the tokens of SQL text, including white space and comments; joined, they are the text again."""
    return [token[0] for token in _TOKEN.finditer(text)]


def _outermost_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words outside brackets and quotes, in capitals, with their places, except names after a dot."""
    depth, after_dot = 0, False
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        depth += (kind == "open") - (kind == "close")
        if kind == "word" and depth == 0 and not after_dot:
            yield token[0].upper(), token.start(), token.end()
        if kind != "skip":
            after_dot = token[0] == "."


def _without_parentheses(text: str) -> str | None:
    """Return the text between the first and the last character, if these are a pair of parentheses."""
    depth, last = 0, None
    for token in _TOKEN.finditer(text):
        if depth == 0 and last is not None and token.lastgroup != "skip":
            return None
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if token.lastgroup != "skip":
            last = token.end()
        if depth == 0 and token[0] != ")":
            return None
    return text[1 : last - 1] if last is not None and text.startswith("(") and depth == 0 else None


def rows_where(
    joined: Any, plan: JoinPlan, types: tuple[Any, Any], aliases: Mapping[str, str], texts: Sequence[str]
) -> Any:
    """Return the rows of an inner join for which Spark evaluates all of ``texts`` to TRUE."""
    held = [f"_ivjoin_{i}" for i in range(len(plan.fields))]
    qualifiers = _QUALIFIERS | {alias: 0 if side == "left" else 1 for alias, side in aliases.items()}
    rows: list[dict[str, Any]] = [{}, {}]
    merged: dict[str, Any] = {}
    for name, field, place in zip(held, plan.schema, plan.fields, strict=True):
        both = None not in (place.left, place.right)
        if both:
            merged[field.name] = F.col(name)
        for side, index in enumerate((place.left, place.right)):
            if index is not None:
                source = types[side][index]
                # A merged key has the common type. Each side's type is narrower, so the cast returns its value.
                rows[side][source.name] = F.col(name).cast(source.dataType) if both else F.col(name)
    columns = [F.struct(*[c.alias(n) for n, c in rows[side].items()]).alias(q) for q, side in qualifiers.items()]
    bare = _of_one_side(rows) | merged
    columns += [column.alias(name) for name, column in bare.items() if name.lower() not in qualifiers]
    condition = " AND ".join(f"(\n{text}\n)" for text in texts)
    filtered = joined.toDF(*held).select("*", *columns).where(F.expr(condition))
    return filtered.select(*[F.col(n).alias(f.name) for n, f in zip(held, plan.schema, strict=True)])


def _of_one_side(rows: list[dict[str, Any]]) -> dict[str, Any]:
    known = [{name.lower() for name in side} for side in rows]
    return {n: c for side, columns in enumerate(rows) for n, c in columns.items() if n.lower() not in known[1 - side]}
