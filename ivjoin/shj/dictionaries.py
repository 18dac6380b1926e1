"""Columns of dictionary type, of which each batch may bring a dictionary of its own.

Arrow puts arrays together by a dictionary of all their values, and keeps a value that no row has any more. Here arrays
that are kept have a dictionary that is little longer than they are, and indices of 32 bits where the column's do not
tell its values apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj.arrow import taken, whole_numbers

__all__ = ["compacted", "joined", "narrowed", "together", "widened"]

_FEW = 1024  # values that a dictionary may have beyond twice the rows that use it


def widened(array: pa.Array) -> pa.Array:
    """A dictionary array with indices of 32 bits at least; any other as it is."""
    t = array.type
    if not pa.types.is_dictionary(t) or t.index_type.bit_width >= 32:
        return array
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), array.dictionary, ordered=t.ordered)


def compacted(array: pa.Array, beyond: int = _FEW) -> pa.Array:
    """With a dictionary of the values in use, if it has ``beyond`` more than twice as many as there are rows."""
    if not pa.types.is_dictionary(array.type) or len(array.dictionary) <= 2 * len(array) + beyond:
        return array
    return _in_use(array)


def narrowed(array: pa.Array, t: pa.DataType) -> pa.Array:
    """A widened array in the column's own type.

    Raises
    ------
    CapacityError
        If its rows have more values than the type's indices tell apart.
    """
    if array.type == t or not pa.types.is_dictionary(t):
        return array
    most = int(np.iinfo(t.index_type.to_pandas_dtype()).max) + 1
    if len(array.dictionary) > most:
        array = _in_use(array)
    if len(array.dictionary) > most:
        raise CapacityError(
            f"{len(array):,} rows of a {t} column have {len(array.dictionary):,} values, expected {most} at most for "
            f"{t.index_type} indices; use a batch_size of {most}, or cast the column to wider indices or to its values"
        )
    return pa.DictionaryArray.from_arrays(array.indices.cast(t.index_type), array.dictionary, ordered=t.ordered)


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """One array of several of a column; a dictionary array has widened indices where it must, or one of them has."""
    t = arrays[0].type
    if not pa.types.is_dictionary(t):
        return pa.concat_arrays(arrays)
    if all(a.type == t for a in arrays):
        try:
            return compacted(pa.concat_arrays(arrays))
        except pa.ArrowInvalid:  # more values than indices
            if t.index_type.bit_width >= 32:
                raise
    return compacted(pa.concat_arrays([widened(a) for a in arrays]))


def together(arrays: Sequence[pa.Array]) -> pa.Array:
    """One array of several of one type, in that type.

    Raises
    ------
    CapacityError
        As of :func:`narrowed`.
    """
    return narrowed(joined(arrays), arrays[0].type)


def _in_use(array: pa.DictionaryArray) -> pa.DictionaryArray:
    indices, there = array.indices, None
    if array.null_count:
        there = np.asarray(indices.is_valid())
        indices = indices.fill_null(0)
    at = np.asarray(indices)
    used = np.unique(at if there is None else at[there])
    places = np.searchsorted(used, at).astype(np.int32)
    if there is not None:
        places[~there] = 0
    values = taken(array.dictionary, whole_numbers(used))
    made = pa.array(places, mask=None if there is None else ~there).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(made, values, ordered=array.type.ordered)
