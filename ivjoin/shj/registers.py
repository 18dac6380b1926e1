"""Define the layout of the operator's state for the kernels: records of int64 fields, and the constants of some fields.

One ``OPERATOR`` record for each operator and one ``SIDE`` record for each side contain every count, bound and edge.
Fields in lines marked *address* point to arrays outside the record. Python reads and writes the same fields
(``Register``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def _record(*lines: str) -> np.dtype:
    return np.dtype([(name, np.int64) for line in lines for name in line.split()])


OPERATOR = _record(
    "phase n n_kept n_alone n_dead n_pairs n_late cursor moved side",  # the push in progress
    "row node steps n_chosen probe_end",  # the progress of its probe
    "late_rows peak_rows pushes largest",
    "live_keys n_ids n_free free table_size slots_size key_kind",
    "passed stirred",  # table entries of other keys that this push probed; whether a stronger mixer hashes the keys
    "n_named grows",  # rows of the batch whose keys have ids; whether capacity grows as keys get ids
    "table slots spans arena rest key_sizes",  # address
    "arena_room arena_top key_bytes",
    "room_rows room_pairs dead_size",
    "values absent marks usable key_ids matched kept alone dead every chosen kept_at chosen_at pair_rows pair_places",
    "state_at",  # address
    "batch_size within raises drops never full_predicate rekeyed prepared masked blocks n_fields out_which emitted",
    "loosens by_ring",  # whether some rows may be in no list; whether matches are searched in the ring instead of lists
    "sides in_struct out_struct releaser in_values in_valid fields",  # address
)
SIDE = _record(
    "lo hi live cap n_axes ordered nothing in_kernel ended sorted",
    "n_bands n_primary n_sources n_columns n_stored n_trackers n_terms fitted",
    "rows bands sources columns stored rings trackers terms bounds expiry",  # address
    "least most peak_span steps linked refused probed retired rows_in trimmed",
    # `since`: the first id from which rows are in the order of the first axis. `swept`: the row where the last sweep
    # ended. `sweeps`: whether the last probe was a sweep. `loose`: 1 + the first id in no list, or 0 if all are in
    # lists.
    "since swept sweeps loose",
    # These apply if Python can bound the other side's later rows better than their orders do. `look_every` is the
    # number of rows between two calls of Python (0: never), and `look_least` its minimum. `unlooked` are the rows since
    # the last call. `looks_left` are the useless calls until `look_every` doubles. `looks_next` is the value it
    # restarts from.
    "look_every look_least unlooked looks_left looks_next",
    "owes keeps semi single mode decide by_python patience has_nulls beyond packs n_pieces",
    "n_key_words n_key_pieces n_texts n_checks n_sums",
    "key_words pieces texts checks extents sums",  # address
)
# An input of the join as ordinals: a column, or an expression that Python computes (column -1). With ``arithmetic``, it
# is a column as doubles plus, minus or times another column or ``number`` (as bits). With LEAST, it is the least double
# that, plus ``number``, reaches the ordinal of source ``second`` plus ``second_code``.
SOURCE = _record(
    "column code guard_low guard_high low high spares_nan role has_absent", "arithmetic second second_code number"
)
# An axis that is not stored: a stored axis plus a double, given as bits.
SUM = _record("axis number")
TRACKER = _record(
    "edge limit seen_value seen_null", "source descending slack more_slack is_float in_python next start low high"
)
TERM = _record("axis tracker low high least most")
BOUND = _record("low high least most")  # of an axis
EXPIRY = _record("used last bound cursor heap size room")  # [axis, falling]
# A stored column that the kernel writes. The width is 0 if the column is an axis or the key. ``ring`` is then 1 if the
# ordinals represent doubles.
STORED = _record("column ring width valid")
# An output column. For text, ``width`` is the width of an offset. ``alike``: equal values of both sides have the same
# bytes, so the column may be taken from the probe side.
FIELD = _record("left right width alike kind")
# A piece of a byte-string key: its source or its column (the other is -1), and whether NULL equals NULL. For text,
# ``width`` is the width of an offset.
KEY_PIECE = _record("kind source column width safe nulls")
# A word of a key of ordinals: a row of ``values``. It is read, or computed from a read row if NULL equals NULL.
KEY_WORD = _record("row source kind")
# A stored column of the input. If the values are not words, ``values`` is the address of the column's TEXT record. The
# stride has special values. 0: the key, a word. -1 - k, for text: piece k of a byte-string key. Another negative
# stride, for words: ordinals of doubles, -stride bytes apart.
RING = _record("values stride valid")
# A stored column of text or bools. A bool column has only ``starts``, its values. ``room``: usable bytes of the arena.
TEXT = _record("column kind start_width offset_width room top base next wanted", "starts arena valid")  # address

# A slice: two batches that are joined as a whole, see ``slice_join``. ``probe`` is the probe side; the other side is
# the build side. The slice owns the rows from ``from`` to ``to`` of each side; the other rows are halo rows.
SLICE = _record(
    "phase probe key_kind n_ids room block_rows n_fields",
    "probe_from probe_to build_from build_to",
    "segment keyed exact rises n_pairs asked cursor total listed which",  # progress of the slice
    "turned_by",  # entries between the two arrays of ``turned``
    "operators first last spare probe_ids build_ids ends rows table words used turned",  # address
    "out_probe out_build at to clean state",  # address
)

# The bits of a push's status. All except OUTPUT, TIDY and SWEEP request an action and another call. HEAP accompanies
# ROOM: the heaps of out-of-order rows need capacity.
OUTPUT, MORE, ROOM, LATE, TIDY, SWEEP, FULL = 1, 2, 4, 8, 16, 32, 64
DECIDE, GATHER, STORE, BOUNDS, INDEX, RUNS, PIECE, HEAP, BEYOND, KEYS = (
    128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536
)

# The phases of a push.
BEGIN, PROBING, EMITTING, KEEPING, STORING, ALONE, BOUNDING, PRUNING, EVICTED, NAMING, GROUPING = range(11)

LINK = 2  # passed in place of a side: put all rows into lists
TEXT_ALONE, ARRAYS = 1, 2  # columns of a side that the push does not store itself
WORDS, BYTES, BITS = range(3)  # kinds of column
NO_KEY, INT, INTS, GIVEN = range(4)  # kinds of key: none, one ordinal, several, byte strings
AS_READ, VALUE_WORD, VALIDITY_WORD = range(3)  # the source's value; its value, or 0 for NULL; whether it is not NULL
ORDINAL_PIECE, TEXT_PIECE, FIXED_PIECE, VALIDITY_PIECE = range(4)
AS_DOUBLE, PLUS, MINUS, TIMES, LEAST = range(1, 6)  # arithmetic of a source
USABLE, KEYED, WILD, DROPPED = 1, 2, 4, 8  # marks of a row of the batch
BAND_ROLE, KEY_ROLE = 1, 2  # the effect of a NULL in a source on its row

NAN_ORDINAL = 0x7FF0_0000_0000_0001  # as in ``ivjoin.expr.ordinal``
NAN_BITS = 0x7FF8_0000_0000_0000  # bits of the NaN that represents all NaNs

# How to read a source.
I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, D128 = range(1, 12)
CODES = {
    ("i", 1): I8, ("i", 2): I16, ("i", 4): I32, ("i", 8): I64, ("u", 1): U8, ("u", 2): U16, ("u", 4): U32,
    ("u", 8): U64, ("f", 4): F32, ("f", 8): F64, ("d", 16): D128,
}


# The functions below use words, because NumPy is several times slower on structured values.


def blank(record: np.dtype, n: int) -> np.ndarray:
    return np.zeros(n * words_in(record), dtype=np.int64).view(record)


def as_words(table: np.ndarray) -> np.ndarray:
    """Return the words of a table of records as a flat view : int64[...]."""
    base = table.base
    if type(base) is np.ndarray and base.dtype == np.int64 and base.ndim == 1 and base.nbytes == table.nbytes:
        return base  # a table created by ``blank``
    return table.reshape(-1).view(np.int64)


def placed(record: np.dtype, **fields: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the word indexes and the values of fields : int64[n] each, to be written at once."""
    words = words_of(record)
    return np.array([words[name] for name in fields]), np.array([int(v) for v in fields.values()], dtype=np.int64)


def words_in(record: np.dtype) -> int:
    return record.itemsize // 8


def words_of(record: np.dtype) -> dict[str, int]:
    assert record.fields is not None
    return {name: int(where[1]) // 8 for name, where in record.fields.items()}


class Register:
    """An attribute that is a field of a record. ``obj._registers`` is the record as int64 words."""

    __slots__ = ("_at",)

    def __init__(self, record: np.dtype, name: str) -> None:
        assert record.fields is not None
        self._at = record.fields[name][1] // 8

    def __get__(self, obj: Any, owner: Any = None) -> int:
        return obj._registers.item(self._at)

    def __set__(self, obj: Any, value: int) -> None:
        obj._registers[self._at] = value
