"""Columns of dictionaries, also inside structs, lists and maps: each call makes other dictionaries."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

__all__ = ["KINDS"]

WORD = pa.dictionary(pa.int8(), pa.string())


def words(at: list[int]) -> pa.Array:
    return pa.array([None if x % 7 == 3 else f"value {x}" for x in at]).dictionary_encode().cast(WORD)


def structs(at: list[int]) -> pa.Array:
    return pa.StructArray.from_arrays([words(at), pa.array(at)], ["d", "x"], mask=pa.array([x % 5 == 4 for x in at]))


def lists(at: list[int]) -> pa.Array:
    ends = [0]
    for x in at:
        ends.append(ends[-1] + x % 3)
    values = words([x + i for x in at for i in range(x % 3)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def pairs(at: list[int]) -> pa.Array:
    values = words([y for x in at for y in (x, x + 1)])
    return pa.FixedSizeListArray.from_arrays(values, 2)


def maps(at: list[int]) -> pa.Array:
    keys = pa.array([f"key {x}" for x in at]).dictionary_encode().cast(WORD)
    return pa.MapArray.from_arrays(pa.array(range(len(at) + 1), pa.int32()), keys, words(at))


def deep(at: list[int]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(at) + 1), pa.int32()), structs(at))


def of_structs(at: list[int]) -> pa.Array:
    """A dictionary whose values are structs, which Arrow cannot join with another."""
    values = pa.array([{"x": x, "y": f"value {x}"} for x in at])
    places = pa.array([None if x % 7 == 3 else i for i, x in enumerate(at)], pa.int8())
    return pa.DictionaryArray.from_arrays(places, values)


def views(at: list[int]) -> pa.Array:
    texts = words(at)
    return pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays(texts.indices, texts.dictionary.cast(pa.string_view()))], ["d"]
    )


KINDS: dict[str, Callable[[list[int]], pa.Array]] = {
    "dictionary": words, "struct": structs, "list": lists, "fixed-size list": pairs, "map": maps,
    "list of structs": deep, "dictionary of structs": of_structs, "struct of dictionaries of views": views,
}  # fmt: skip
