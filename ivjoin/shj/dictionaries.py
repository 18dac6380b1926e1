"""Handle dictionary columns, also within nested types. Each batch may have its own dictionaries.

Arrow concatenates such arrays with a dictionary of all their values. It retains unused values, and cannot unify
dictionaries of structs and lists. The functions here drop unused values from stored arrays. ``ivjoin.shj.plain`` gives
them indices of at least 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj.arrow import bitmap, counted, fixed_view, taken, validity, whole_numbers
from ivjoin.shj.nested import end_to_end, is_taken_apart, made_of, parts_of

__all__ = [
    "combined", "compacted", "has_dictionaries", "narrowed", "one_array", "renumbered", "rows_of", "sound",
    "with_nulls_in_rows",
]  # fmt: skip

_NUMBERS = {getattr(pa, f"{u}int{bits}")().id: np.dtype(f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)}
_FEW = 1024  # a dictionary may have this number of values on top of twice the rows that use it


def compacted(array: pa.Array) -> pa.Array:
    """Return the array without unused dictionary values, if these are many."""
    if not has_dictionaries(array.type):
        return array
    return _changed(array, lambda a: a if len(a.dictionary) <= 2 * len(a) + _FEW else _in_use(a))


def narrowed(array: pa.DictionaryArray, t: pa.DictionaryType) -> pa.DictionaryArray:
    """Return a dictionary array with the index type of ``t``. If it cannot address all values, raise CapacityError."""
    if array.type.index_type == t.index_type:
        return array
    most = 1 << (t.index_type.bit_width - pa.types.is_signed_integer(t.index_type))
    if len(array.dictionary) > most:
        array = _in_use(array)
    if len(array.dictionary) > most:
        raise CapacityError(
            f"{len(array):,} rows of a {t} column have {len(array.dictionary):,} distinct values; expected at most "
            f"{most} for {t.index_type} indices. Use a batch_size of {most}, or cast the column to wider indices or to "
            "its values"
        )
    return renumbered(sound(array), t.index_type, array.dictionary)


def renumbered(array: pa.DictionaryArray, index: pa.DataType, dictionary: pa.Array) -> pa.DictionaryArray:
    """Return the rows with another dictionary and another index type, which must fit the (sound) indices."""
    # Use NumPy, because a cast and a check by Arrow take longer than a push of a few rows.
    was, offset, rows = array.type, array.offset, len(array)
    old, new, before = _NUMBERS[was.index_type.id], _NUMBERS[index.id], offset % 8
    valid, words = array.buffers()
    if valid is not None:
        valid = valid.slice(offset // 8)
    start = (offset - before) * old.itemsize
    numbers = np.frombuffer(words, old, before + rows, start) if rows else np.empty(before, old)
    return pa.DictionaryArray.from_buffers(
        pa.dictionary(index, dictionary.type, was.ordered), rows,
        [valid, pa.py_buffer(numbers.astype(new, copy=False))], dictionary, array.null_count, before,
    )


def one_array(arrays: Sequence[pa.Array], pool: pa.MemoryPool | None = None) -> pa.Array:
    """Concatenate arrays of one column. Dictionary indices widen if needed. Other memory comes from ``pool``."""
    t = arrays[0].type
    if not has_dictionaries(t):
        return pa.concat_arrays(arrays, memory_pool=pool)
    if pa.types.is_dictionary(t):
        return compacted(_one_dictionary(arrays))
    parts = [parts_of(a) for a in arrays]
    children = [one_array([sound(a) for a in each]) for each in zip(*(p.children for p in parts), strict=True)]
    return made_of(end_to_end(parts, children), t)


def rows_of(
    parts: Sequence[pa.Array], firsts: Sequence[int], ids: np.ndarray, read: Callable[[], object] | None = None
) -> pa.Array:
    """Return rows ``ids`` of a column in several arrays, whose first rows are ``firsts``.

    Call ``read`` after each array.
    """
    if len(parts) == 1 or not len(ids):
        return taken(parts[0], whole_numbers(ids - firsts[0]))
    which = np.searchsorted(np.asarray(firsts), ids, side="right") - 1
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(parts)))
    pieces = []
    for part, rows in enumerate(np.split(ids[order], ends[:-1])):
        if len(rows):
            pieces.append(taken(parts[part], whole_numbers(rows - firsts[part])))
            if read is not None:
                read()
    back = np.empty(len(ids), dtype=np.int64)
    back[order] = np.arange(len(ids))
    return taken(one_array(pieces), whole_numbers(back))


def combined(table: pa.Table) -> pa.Table:
    """Return the table with one chunk per column, if one array can store it. Dictionaries may get wider indices."""
    if not any(map(has_dictionaries, table.schema.types)):
        return table.combine_chunks()
    columns = [
        c.combine_chunks() if not has_dictionaries(c.type) else one_array(c.chunks or [pa.nulls(0, c.type)])
        for c in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def has_dictionaries(t: pa.DataType) -> bool:
    if pa.types.is_dictionary(t):
        return True
    inner = range(t.num_fields)
    return bool(inner) and is_taken_apart(t) and any(has_dictionaries(t.field(i).type) for i in inner)


def _changed(array: pa.Array, change: Callable[[pa.DictionaryArray], pa.DictionaryArray]) -> pa.Array:
    """Return the array after ``change`` has replaced each dictionary array in it."""
    if pa.types.is_dictionary(array.type):
        return change(array)
    if not has_dictionaries(array.type):
        return array
    parts = parts_of(array)
    made = [_changed(child, change) for child in parts.children]
    same = all(a is b for a, b in zip(made, parts.children, strict=True))
    return array if same else made_of(parts.of(made), array.type)


def _one_dictionary(arrays: Sequence[pa.DictionaryArray]) -> pa.DictionaryArray:
    t = arrays[0].type
    if pa.types.is_float16(t.value_type):  # Arrow misreads float16 as integers
        bits = _one_dictionary([renumbered(a, a.type.index_type, a.dictionary.view(pa.uint16())) for a in arrays])
        return renumbered(bits, bits.type.index_type, bits.dictionary.view(pa.float16()))
    if any(a.dictionary.null_count for a in arrays):  # Arrow cannot unify dictionaries with nulls
        arrays = [_null_by_index(a) for a in arrays]
    try:
        if all(a.type == t for a in arrays):
            try:
                return pa.concat_arrays(arrays)
            except pa.ArrowInvalid:  # more values than the indices can address
                if t.index_type.bit_width >= 32:
                    raise
        return pa.concat_arrays([_widened(a) for a in arrays])
    except pa.ArrowNotImplementedError:  # Arrow cannot unify structs and lists
        return _one_behind_another([_widened(a) for a in arrays])


def with_nulls_in_rows(array: pa.Array) -> pa.Array:
    """Return the same rows with NULL indices in place of indices of NULL values, also within nested types."""
    return _changed(array, _null_by_index)


def _null_by_index(array: pa.DictionaryArray) -> pa.DictionaryArray:
    there = validity(array.dictionary)
    if there is None or not array.dictionary.null_count:
        return array
    numbers, valid = _numbers(sound(array))
    kept = there[numbers] if valid is None else valid & there[numbers]
    places = np.where(kept, (np.cumsum(there) - 1)[numbers], 0)
    return _with_numbers(places, kept, taken(array.dictionary, whole_numbers(np.flatnonzero(there))), array.type)


def _one_behind_another(arrays: Sequence[pa.DictionaryArray]) -> pa.DictionaryArray:
    dictionaries: list[pa.Array] = []
    indices, base, top = [], 0, 0
    for a in arrays:
        if not dictionaries or not a.dictionary.equals(dictionaries[-1]):
            dictionaries.append(a.dictionary)
            base, top = top, top + len(a.dictionary)
        indices.append(_numbers(a)[0] + base)
    there = [validity(a.indices) for a in arrays]
    valid = None
    if any(v is not None for v in there):
        valid = np.concatenate([np.ones(len(a), bool) if v is None else v for a, v in zip(arrays, there, strict=True)])
    return _with_numbers(np.concatenate(indices), valid, one_array(dictionaries), arrays[0].type)


def _widened(array: pa.DictionaryArray) -> pa.DictionaryArray:
    t = array.type
    if t.index_type.bit_width >= 32:
        return array
    return renumbered(array, pa.int32(), array.dictionary)


def sound(array: pa.Array) -> pa.Array:
    """Return the array with NULL for each index that is out of range.

    PyArrow creates such indices below a NULL struct.
    """
    if not pa.types.is_dictionary(array.type):
        return array
    words = fixed_view(array.indices, array.type.index_type.bit_width // 8)  # a negative index is a large word
    if not len(words) or int(words.max()) < len(array.dictionary):
        return array
    numbers, valid = _numbers(array)
    wrong = (numbers < 0) | (numbers >= len(array.dictionary))
    if not wrong.any():
        return array
    there = ~wrong if valid is None else valid & ~wrong
    return _with_numbers(np.where(wrong, 0, numbers), there, array.dictionary, array.type)


def _in_use(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the array with a dictionary of the values that its rows use."""
    numbers, valid = _numbers(sound(array))
    used = np.unique(numbers if valid is None else numbers[valid])
    places = np.searchsorted(used, numbers)
    if valid is not None:
        places[~valid] = 0
    return _with_numbers(places, valid, taken(array.dictionary, whole_numbers(used)), array.type)


def _numbers(array: pa.DictionaryArray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the rows' indices : int64[n], 0 for NULL, and the non-NULL rows : bool[n], or None if no row is NULL."""
    indices = array.indices
    valid = validity(indices)
    numbers = counted(indices)
    return (numbers if valid is None else np.where(valid, numbers, 0)), valid


def _with_numbers(
    numbers: np.ndarray, valid: np.ndarray | None, dictionary: pa.Array, t: pa.DictionaryType
) -> pa.DictionaryArray:
    made = whole_numbers(numbers.astype(_NUMBERS[t.index_type.id]))
    if valid is not None:
        made = pa.Array.from_buffers(made.type, len(made), [bitmap(valid), made.buffers()[1]])
    return pa.DictionaryArray.from_arrays(made, dictionary, ordered=t.ordered)
