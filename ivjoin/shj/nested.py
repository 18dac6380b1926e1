"""Split arrays of structs, lists, maps and unions into their parts, and rebuild them with other children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ivjoin.errors import CapacityError
from ivjoin.shj.arrow import bitmap, validity

__all__ = ["Parts", "end_to_end", "has_unions", "is_taken_apart", "made_of", "parts_of", "with_children"]

_MOST_NARROW = 2**31 - 1  # values that 32-bit offsets can address


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a nested array. ``children`` are limited to the values that the rows use.

    - All types have ``valid`` : bool[rows] or None.
    - Lists and maps have ``ends`` : int64[rows + 1]. Row ``i`` has the values ``ends[i]`` to ``ends[i + 1]``.
    - Unions have ``which`` : int64[rows], the number of the child. Dense unions have ``places`` : int32[rows], the
      place in that child.
    """

    rows: int
    valid: np.ndarray | None
    ends: np.ndarray | None
    children: list[pa.Array]
    which: np.ndarray | None = None
    places: np.ndarray | None = None

    def of(self, children: Sequence[pa.Array]) -> Parts:
        return replace(self, children=list(children))


def is_taken_apart(t: pa.DataType) -> bool:
    pt = pa.types
    return pt.is_struct(t) or pt.is_fixed_size_list(t) or pt.is_map(t) or pt.is_union(t) or _is_list(t)


def has_unions(t: pa.DataType) -> bool:
    """Return whether a type contains unions. IPC reads empty unions without buffers, and ``nbytes`` then crashes."""
    if isinstance(t, pa.BaseExtensionType):
        return has_unions(t.storage_type)
    return pa.types.is_union(t) or any(has_unions(t.field(i).type) for i in range(t.num_fields))


def parts_of(array: pa.Array) -> Parts:
    """Split an array of structs, lists, list views, maps or unions into its parts."""
    t, n = array.type, len(array)
    if pa.types.is_union(t):
        return _parts_of_union(array)
    valid = validity(array)
    if pa.types.is_struct(t):
        return Parts(n, valid, None, [array.field(i) for i in range(t.num_fields)])
    if pa.types.is_fixed_size_list(t):
        return Parts(n, valid, None, [array.values.slice(array.offset * t.list_size, n * t.list_size)])
    if pa.types.is_list_view(t) or pa.types.is_large_list_view(t):
        sizes = np.asarray(array.sizes).astype(np.int64)
        if valid is not None:
            sizes[~valid] = 0
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        starts = np.asarray(array.offsets).astype(np.int64)
        at = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
        whole = array.values
        in_order = len(at) == 0 or bool((np.diff(at) == 1).all())
        values = whole.slice(int(at[0]) if len(at) else 0, len(at)) if in_order else whole.take(pa.array(at))
        return Parts(n, valid, ends, [values])
    ends = np.asarray(array.offsets).astype(np.int64)
    if not len(ends):  # an array without rows may have no offsets
        ends = np.zeros(1, dtype=np.int64)
    return Parts(n, valid, ends - ends[0], [array.values.slice(int(ends[0]), int(ends[-1] - ends[0]))])


def _parts_of_union(array: pa.UnionArray) -> Parts:
    t, n = array.type, len(array)
    children = [array.field(i) for i in range(t.num_fields)]
    buffers = array.buffers() if n else []  # IPC reads an array without rows without buffers
    codes = np.frombuffer(buffers[1], np.int8, n, array.offset) if n else np.empty(0, dtype=np.int8)
    child_of = np.zeros(128, dtype=np.int64)
    child_of[t.type_codes] = np.arange(t.num_fields)
    which = child_of[codes]
    if t.mode == "sparse":
        return Parts(n, None, None, children, which)
    places = np.frombuffer(buffers[2], np.int32, n, array.offset * 4).copy() if n else np.empty(0, dtype=np.int32)
    for i, child in enumerate(children):
        at = np.flatnonzero(which == i)
        first, end = (int(places[at].min()), int(places[at].max()) + 1) if len(at) else (0, 0)
        children[i] = child.slice(first, end - first)
        places[at] -= first
    return Parts(n, None, None, children, which, places)


def end_to_end(parts: Sequence[Parts], children: Sequence[pa.Array]) -> Parts:
    """Concatenate the rows of several arrays whose children are already concatenated."""
    valid = ends = None
    if any(p.valid is not None for p in parts):
        valid = np.concatenate([np.ones(p.rows, dtype=bool) if p.valid is None else p.valid for p in parts])
    if any(p.ends is not None for p in parts):
        sizes = [np.diff(p.ends) for p in parts if p.ends is not None]
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes))])
    which = [p.which for p in parts if p.which is not None]
    places, before = [], np.zeros(len(children), dtype=np.int64)
    for p in parts:
        if p.places is not None and p.which is not None:
            places.append(p.places + before[p.which])
            before += [len(c) for c in p.children]
    return Parts(
        sum(p.rows for p in parts), valid, ends, list(children), np.concatenate(which) if which else None,
        np.concatenate(places) if places else None,
    )


def made_of(parts: Parts, like: pa.DataType) -> pa.Array:
    """Build an array like ``like`` with these children. If offsets cannot address all values, raise CapacityError."""
    t, pt = with_children(like, [c.type for c in parts.children]), pa.types
    there, nulls = None, 0
    if parts.valid is not None:
        there, nulls = bitmap(parts.valid), parts.rows - int(np.count_nonzero(parts.valid))
    buffers = [there]
    if parts.which is not None:
        buffers.append(pa.py_buffer(np.array(t.type_codes, dtype=np.int8)[parts.which]))
    if parts.places is not None:
        if max(map(len, parts.children), default=0) > _MOST_NARROW:
            raise CapacityError(
                f"{parts.rows:,} rows of a {t} column have more values of one type than expected, at most "
                f"{_MOST_NARROW:,}. Use smaller batches"
            )
        buffers.append(pa.py_buffer(parts.places.astype(np.int32)))
    if parts.ends is not None:
        wide = pt.is_large_list(t) or pt.is_large_list_view(t)
        if not wide and parts.ends[-1] > _MOST_NARROW:
            raise CapacityError(
                f"{parts.rows:,} rows of a {t} column have {parts.ends[-1]:,} values in their lists; expected at most "
                f"{_MOST_NARROW:,}. Use smaller batches or a large_list"
            )
        ends = parts.ends if wide else parts.ends.astype(np.int32)
        if pt.is_list_view(t) or pt.is_large_list_view(t):
            buffers += [pa.py_buffer(np.ascontiguousarray(ends[:-1])), pa.py_buffer(np.diff(ends))]
        else:
            buffers.append(pa.py_buffer(ends))
    return pa.Array.from_buffers(t, parts.rows, buffers, nulls, 0, parts.children)


def with_children(t: pa.DataType, types: Sequence[pa.DataType]) -> pa.DataType:
    pt = pa.types
    if [t.field(i).type for i in range(t.num_fields)] == list(types):
        return t
    if pt.is_struct(t):
        return pa.struct([t.field(i).with_type(inner) for i, inner in enumerate(types)])
    if pt.is_union(t):
        return pa.union([t.field(i).with_type(inner) for i, inner in enumerate(types)], t.mode, t.type_codes)
    if pt.is_map(t):
        key, item = types[0].field(0), types[0].field(1)
        return pa.map_(key, item, keys_sorted=t.keys_sorted)
    field = t.value_field.with_type(types[0])
    if pt.is_fixed_size_list(t):
        return pa.list_(field, t.list_size)
    if pt.is_list_view(t):
        return pa.list_view(field)
    if pt.is_large_list_view(t):
        return pa.large_list_view(field)
    return pa.large_list(field) if pt.is_large_list(t) else pa.list_(field)


def _is_list(t: pa.DataType) -> bool:
    pt = pa.types
    return pt.is_list(t) or pt.is_large_list(t) or pt.is_list_view(t) or pt.is_large_list_view(t)
