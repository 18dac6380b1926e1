"""Add hints to errors about names that look like columns but are not, such as the index of a pandas frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ivjoin.errors import ColumnError

__all__ = ["index_hints"]


@contextmanager
def index_hints(inputs: Mapping[str, Any]) -> Iterator[None]:
    """Mention ``reset_index()`` in the error for a missing column that is the index of a pandas frame.

    ``inputs`` are given by the names that the caller uses for them.
    """
    try:
        yield
    except ColumnError as e:
        for name, given in inputs.items():
            if type(given).__module__.partition(".")[0] != "pandas":
                continue
            missing = [str(n) for n in given.index.names if n is not None and f"column {n!r} is not in" in str(e)]
            if missing:
                raise e.saying(
                    f"{e}\n{missing[0]!r} is the index of the {name} frame, which is left out; pass df.reset_index()"
                ) from e
        raise
