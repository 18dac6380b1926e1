"""A nested-loop join over Python rows: the answer that every other join is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti")

Key = tuple[Callable[[Any], Any], Callable[[Any], Any], bool]  # value of a left row, of a right row, null-safe
Pair = tuple[int | None, int | None]  # positions in the inputs; None where a side is absent


def rows_of(batches: Any) -> Counter[str]:
    """The rows of a table or of batches, to compare."""
    batches = batches.to_batches() if hasattr(batches, "to_batches") else batches
    return Counter(repr(tuple(row.values())) for batch in batches for row in batch.to_pylist())


def same(a: Any, b: Any, null_safe: bool) -> bool:
    """Whether two key values are equal: NaN equals itself, a null equals only a null and only under ``<=>``."""
    if a is None or b is None:
        return null_safe and a is None and b is None
    return bool(a == b) or (a != a and b != b)


def pairs(
    left: Sequence[Any], right: Sequence[Any], how: str, keys: Sequence[Key] = (),
    condition: Callable[[Any, Any], bool | None] | None = None,
) -> list[Pair]:
    """Which rows meet, as positions. A semi or anti join names rows of its preserved side alone."""
    met: list[tuple[int, int]] = []
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            if not all(same(f(a), g(b), null_safe) for f, g, null_safe in keys):
                continue
            if condition is None or condition(a, b) is True:
                met.append((i, j))
    seen_left, seen_right = {i for i, _ in met}, {j for _, j in met}
    lone_left: list[Pair] = [(i, None) for i in range(len(left)) if i not in seen_left]
    lone_right: list[Pair] = [(None, j) for j in range(len(right)) if j not in seen_right]
    answers: dict[str, list[Pair]] = {
        "inner": [*met], "left": [*met, *lone_left], "right": [*met, *lone_right],
        "full": [*met, *lone_left, *lone_right], "left_semi": [(i, None) for i in seen_left], "left_anti": lone_left,
        "right_semi": [(None, j) for j in seen_right], "right_anti": lone_right,
    }
    return answers[how]


def join(
    left: Sequence[Any], right: Sequence[Any], how: str, keys: Sequence[Key] = (),
    condition: Callable[[Any, Any], bool | None] | None = None,
    *,
    left_out: Sequence[tuple[Hashable, ...]] | None = None,
    right_out: Sequence[tuple[Hashable, ...]] | None = None,
    widths: tuple[int, int] | None = None,
    merged: Sequence[tuple[int, int]] = (),
) -> Counter[tuple[Hashable, ...]]:
    """The multiset of output rows.

    ``left_out`` and ``right_out`` are the rows as they come out (by default the rows themselves), ``widths`` their
    numbers of columns, ``merged`` the (left, right) positions of columns that come out once, in the left's place.
    """
    lefts, rights = left if left_out is None else left_out, right if right_out is None else right_out
    n, m = widths or (len(lefts[0]) if lefts else 0, len(rights[0]) if rights else 0)
    dropped = {j for _, j in merged}
    out: Counter[tuple[Hashable, ...]] = Counter()
    for i, j in pairs(left, right, how, keys, condition):
        a = list(lefts[i]) if i is not None else [None] * n
        b = list(rights[j]) if j is not None else [None] * m
        if how.startswith("left_"):
            out[tuple(a)] += 1
        elif how.startswith("right_"):
            out[tuple(b)] += 1
        else:
            for p, q in merged if i is None else ():
                a[p] = b[q]
            out[(*a, *(v for q, v in enumerate(b) if q not in dropped))] += 1
    return out
