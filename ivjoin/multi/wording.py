"""Translate texts about the sides of a step, or the left side of an input, into the names of the inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from ivjoin.errors import IvjoinError
from ivjoin.expr.nodes import LEFT, make
from ivjoin.expr.types import from_arrow

__all__ = ["by_their_names", "in_own_names", "of_input", "own_names"]

_NO_INPUT = re.compile(r"names no input; expected one of l, left, r, right(?:; did you mean '\w+')?")
_OF_A_SIDE = re.compile(r"\b[lr]\.(?:`(?:[^`]|``)+`|\w+)")


def of_input(message: str, alias: str) -> str:
    plain = message.replace("the left side", f"input {alias!r}").replace("side 'left'", f"input {alias!r}")
    plain = plain.replace("left_bounds", f"bounds[{alias!r}]").replace("left_order", f"orders[{alias!r}]")
    plain = re.sub(rf"\bl\.{alias}_", f"{alias}.", plain)
    plain = plain.replace(": left has ", f": {alias} has ")
    plain = _NO_INPUT.sub("is not one of its own columns, which need no prefix", plain)
    return re.sub(r"\bis not in left\b", f"is not in input {alias!r}", re.sub(r"\bl\.(?=[\w`])", f"{alias}.", plain))


def own_names(schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """Map the column names of a step, without the side, to ``alias.column``."""

    def text(side: str, name: str, t: pa.DataType) -> str:
        return str(make("column", (), (side, name), from_arrow(t)))

    return {
        text(LEFT, f"{alias}_{f.name}", f.type).removeprefix("l."): text(alias, f.name, f.type)
        for alias, schema in schemas.items() for f in schema
    }


def in_own_names(text: str, names: Mapping[str, str]) -> str:
    return _OF_A_SIDE.sub(lambda m: names.get(m[0][2:], m[0]), text)


@contextmanager
def by_their_names(names: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except IvjoinError as e:
        said = str(e)
        plain = in_own_names(said, names)
        if plain == said:
            raise
        raise e.saying(plain) from e
