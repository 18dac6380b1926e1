"""The arguments of the comparison functions: two sequences of keys, a window in steps, a memory in rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ivjoin.arguments import whole_number
from ivjoin.errors import OptionError, came

__all__ = ["Keys", "coded", "memory_of"]

Keys = Sequence[Hashable] | np.ndarray
_MOST = 2**31 - 1
_NAN = object()


def coded(left_keys: Keys, right_keys: Keys, window: int) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return keys as numbers from zero on (int64[n], int64[n]), the number of distinct keys, and the window.

    None equals no key and becomes -1; NaN equals NaN.
    """
    window = whole_number("window", window, 1, _MOST, "a whole number of steps")
    sides = []
    codes: dict[Hashable, int] = {}
    for name, keys in (("left_keys", left_keys), ("right_keys", right_keys)):
        if isinstance(keys, (str, bytes)) or not isinstance(keys, (Sequence, np.ndarray)):
            raise OptionError(f"{name} is {came(keys)}; expected a list or an array of keys, one a step")
        values = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
        try:
            sides.append([-1 if k is None else codes.setdefault(k if k == k else _NAN, len(codes)) for k in values])
        except TypeError as e:
            raise OptionError(f"{name} contains a value that cannot be a key: {e}") from e
    if len(sides[0]) != len(sides[1]):
        raise OptionError(
            f"left_keys has {len(sides[0])} keys and right_keys {len(sides[1])}; expected the same number, since one "
            "row a side arrives at each step"
        )
    return np.array(sides[0], dtype=np.int64), np.array(sides[1], dtype=np.int64), len(codes), window


def memory_of(memory: int, shared: bool) -> tuple[int, int] | int:
    """Return how many rows may be stored: of both sides together if shared, or else half of them for each side."""
    memory = whole_number("memory", memory, 0, _MOST, "a whole number of rows")
    if not isinstance(shared, (bool, np.bool_)):
        raise OptionError(f"shared is {came(shared)}; expected True or False")
    if shared:
        return memory
    if memory % 2:
        raise OptionError(f"memory is {memory}; expected an even number, half of it for each side, or shared=True")
    return memory // 2, memory // 2
