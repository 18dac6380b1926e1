"""Store payload columns of one side: rings of words, rings of bytes, and whole Arrow arrays for other types.

A stored row has an absolute id. ``places`` is ``ids % cap``. Every column has these methods:

- ``append(array)`` stores rows with the next ids.
- ``grow(cap, lo, hi)`` changes the capacity, to at least the number of stored rows.
- ``gather(ids, places)`` returns the values of these rows as an array of the column's type.
- ``select(ids, places, cap)`` retains only these rows, renumbered from 0.
- ``trim(lo)`` forgets rows below ``lo``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakMethod

import numpy as np
import pyarrow as pa

from ivjoin.shj import arrow
from ivjoin.shj.kernels.pointers import address_of as address
from ivjoin.shj.registers import BITS, TEXT, blank
from ivjoin.shj.store.values.rings import Column, FixedColumn, RingColumn, Validity, put
from ivjoin.shj.store.values.segments import SegmentColumn
from ivjoin.shj.store.values.texts import BytesColumn, KeyTextColumn, PiecesAt

__all__ = ["BoolColumn", "OrdinalColumn", "WordColumn", "column_for", "columns_of"]

OrdinalsAt = WeakMethod[Callable[[int | None, np.ndarray], np.ndarray]]
_FIRST_CAP = 64
_NO_TEXT = blank(TEXT, 0)


def column_for(t: pa.DataType, cap: int, record: np.ndarray | None = None, width: int | None = -1) -> Column:
    """Return a column for an Arrow type with this ``byte_width``. Kernels find it by its ``record`` : TEXT[1]."""
    width = arrow.byte_width(t) if width == -1 else width
    if width is not None:
        return WordColumn(t, cap, width)
    if arrow.offset_width(t) is not None:
        return BytesColumn(t, cap, record)
    if pa.types.is_boolean(t):
        return BoolColumn(t, cap, record)
    return SegmentColumn(t)


def columns_of(
    types: Sequence[pa.DataType], widths: Sequence[int | None], stored: Sequence[int], same: Mapping[int, int | None],
    in_key: Mapping[int, int], ordinals_at: OrdinalsAt, pieces_at: PiecesAt | None,
) -> tuple[list[Column], np.ndarray]:
    """Return the stored columns of a side, as in ``StoredRows``, and the TEXT[n] records of its text columns."""
    kept_as_text = [
        i for i, t in enumerate(types)
        if widths[i] is None and i not in in_key and (arrow.offset_width(t) or pa.types.is_boolean(t))
    ]
    texts = blank(TEXT, len(kept_as_text)) if kept_as_text else _NO_TEXT
    for k, i in enumerate(kept_as_text):
        texts["column"][k] = stored[i]
    records = {i: texts[k : k + 1] for k, i in enumerate(kept_as_text)}
    columns: list[Column] = []
    for i, (t, width) in enumerate(zip(types, widths, strict=True)):
        if i in same:
            columns.append(OrdinalColumn(t, same[i], ordinals_at, _FIRST_CAP, width or 0))
        elif i in in_key:
            assert pieces_at is not None
            columns.append(KeyTextColumn(t, in_key[i], pieces_at))
        else:
            columns.append(column_for(t, _FIRST_CAP, records.get(i), width))
    return columns, texts


class WordColumn(RingColumn):
    """A ring of fixed-width words."""

    def __init__(self, t: pa.DataType, cap: int, width: int, valid: Validity | None = None) -> None:
        super().__init__(t, valid)
        self._width = width
        dtype, shape = arrow.words_of(width)
        self._ring = np.empty((cap, *shape), dtype=dtype)

    @classmethod
    def taking_over(cls, column: OrdinalColumn, cap: int, places: np.ndarray) -> WordColumn:
        """Return a ring with the values of the rows at ``places``, which were read from an axis before."""
        made = cls(column.type, cap, 8, column.valid)
        made._ring[places] = column.words(places)
        return made

    def append(self, array: pa.Array, first: int) -> None:
        put(self._ring, first, arrow.fixed_view(array, self._width))
        if array.null_count or self.valid.ring is not None:
            self.valid.put(first, arrow.validity(array), len(array), len(self._ring))

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return arrow.fixed_array(self._ring.take(places, axis=0), self.valid.at(places), self.type)


class OrdinalColumn(FixedColumn):
    """A column whose values the store already has as an axis (``source``) or as the key (None). Only NULLs are stored.

    - :func:`ivjoin.shj.arrow.is_own_ordinal` is True for its type.
    - If ``source`` is an axis, it may also be float64, as long as ordinals determine every value (:meth:`tells`).
    - ``values`` returns the values of a source at given places : int64[n]. It is a weak reference. A strong reference
      to the store would delay freeing both until a garbage collection.
    """

    def __init__(self, t: pa.DataType, source: int | None, values: OrdinalsAt, cap: int, width: int) -> None:
        super().__init__(t)
        self.source = source
        self.doubles = pa.types.is_float64(t)
        self._values = values
        self._word = arrow.words_of(width)[0]
        self._cap = cap

    def tells(self, array: pa.Array) -> bool:
        """Return whether the ordinals determine every value of an array."""
        return not self.doubles or arrow.are_told_by_ordinals(array)

    def words(self, places: np.ndarray) -> np.ndarray:
        """Return the values at ``places`` as unsigned words."""
        values = self._values()
        assert values is not None, "a column without its store"
        ordinals = values(self.source, places)
        if self.doubles:
            return arrow.doubles_of(ordinals).view(self._word)
        return ordinals.astype(self._word, copy=False)

    def append(self, array: pa.Array, first: int) -> None:
        if array.null_count or self.valid.ring is not None:
            self.valid.put(first, arrow.validity(array), len(array), self._cap)

    def grow(self, cap: int, lo: int, hi: int) -> None:
        self._cap = cap
        self.valid.grow(cap, lo, hi)

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return arrow.fixed_array(self.words(places), self.valid.at(places), self.type)

    def select(self, ids: np.ndarray, places: np.ndarray, cap: int) -> None:
        self._cap = cap
        self.valid.select(places, cap)


class BoolColumn(RingColumn):
    """A ring of bools, one byte each. Kernels find it by its ``record`` : TEXT[1]."""

    def __init__(self, t: pa.DataType, cap: int, record: np.ndarray | None = None) -> None:
        super().__init__(t)
        self.record = blank(TEXT, 1) if record is None else record
        self.record["kind"] = BITS
        self._ring = np.zeros(cap, dtype=bool)

    def take_record(self, record: np.ndarray) -> None:
        self.record = record

    def point(self) -> None:
        ring = self.valid.ring
        self.record["starts"], self.record["valid"] = address(self._ring), 0 if ring is None else address(ring)

    def append(self, array: pa.Array, first: int) -> None:
        put(self._ring, first, arrow.truths(array))
        self.valid.put(first, arrow.validity(array), len(array), len(self._ring))

    def gather(self, ids: np.ndarray, places: np.ndarray) -> pa.Array:
        return arrow.over_buffers(self.type, len(places), self.valid.at(places), arrow.bitmap(self._ring[places]))
