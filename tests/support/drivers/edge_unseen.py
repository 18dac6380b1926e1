"""Pairs that err and need not raise: the table in ``docs/semantics.md``, a function for each row of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from drivers.edge_shapes import E, Erred

Pair = tuple[Any, Any]
Path = list[E]  # what errs first, what that stands in, and so on to the whole condition

SUMS = {"+", "-", "neg"}
# What may be TRUE, or have a value, though a part of it is not computed or does not bound it.
CHOICES = {"or", "case", "coalesce", "greatest", "least"}


def conjuncts(e: E) -> list[E]:
    return [c for x in e.args for c in conjuncts(x)] if e.op == "and" else [e]


def nodes(e: E) -> Iterator[E]:
    yield e
    for x in e.args:
        yield from nodes(x)


def _conjunct(path: Path) -> E:
    return next(e for e in path if e in conjuncts(path[-1]))


def _others(path: Path, pair: Pair) -> Iterator[E]:
    """The other conjuncts, as far as they are not TRUE."""
    for c in conjuncts(path[-1]):
        if c is not _conjunct(path):
            try:
                if c.of(*pair) is not True:
                    yield c
            except Erred:
                pass


def solved_for_a_side(path: Path, pair: Pair) -> bool:
    """Its keys differ; an equality that can be solved for either side is a key."""
    c = _conjunct(path)
    linear = {*SUMS, "=", "l", "r", ""}
    return c.op == "=" and any(len(x.columns()) == 2 for x in c.args) and all(n.op in linear for n in nodes(c))


def row_is_dropped(path: Path, pair: Pair) -> bool:
    """One of its rows was dropped: a conjunct of its side alone, or a null or NaN, rules it out."""
    return any(v is None or v != v for v in pair) or any(len(c.columns()) == 1 for c in _others(path, pair))


def refused_by_another_band(path: Path, pair: Pair) -> bool:
    """The band of another conjunct rejects it, wherever that stands; ``<>`` has no band."""
    return any(len(c.columns()) == 2 and c.op != "<>" for c in _others(path, pair))


def product_by_its_root(path: Path, pair: Pair) -> bool:
    """A product, or a sum of products: its band is the root's."""
    return path[0].op == "*" and all(len(x.columns()) == 2 for x in path[0].args)


def narrow_sum(path: Path, pair: Pair) -> bool:
    """A sum of one side in a branch, or within a larger sum of more columns: over unsigned or 8 and 16 bit integers."""
    sum_, *outer = path
    small = sum_.type.name.startswith("uint") or sum_.type.name in ("int8", "int16")
    larger = any(e.op in SUMS and sum(n.op in ("l", "r") for n in nodes(e)) > 2 for e in outer)
    branch = len(sum_.columns()) == 1 and any(e.op in CHOICES for e in outer)
    return small and sum_.op in SUMS and (larger or branch)


def other_operation(path: Path, pair: Pair) -> bool:
    """Anything but a sum, difference, ``abs`` or cast, next to something that bounds the pair."""
    plain = {*SUMS, "abs", "cast"}
    return path[0].op not in plain and bool(path[0].columns()) and any(e.op in CHOICES for e in path[1:])


UNSEEN: list[Callable[[Path, Pair], bool]] = [
    solved_for_a_side, row_is_dropped, refused_by_another_band, product_by_its_root, narrow_sum, other_operation,
]  # fmt: skip


def may_be_unseen(e: E, pair: Pair) -> str | None:
    """The name of a row of the table that the pair falls under, if it errs; None if it has to raise."""
    try:
        e.of(*pair)
    except Erred as error:
        return next((f.__name__ for f in UNSEEN if f(error.path, pair)), None)
    return None
