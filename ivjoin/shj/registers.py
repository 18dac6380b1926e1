"""The operator's state as the kernels see it: records of int64 fields, and the codes that stand in them.

One ``OPERATOR`` record an operator and one ``SIDE`` record a side hold every count, bound and edge; fields in the lines
marked *address* point to the arrays beside them. Nothing is kept twice: ``SideStore``, the key table and the order
trackers read and write these very fields (``Register``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "ARRAYS", "AS_DOUBLE", "AS_READ", "BAND_ROLE", "BEGIN", "BEYOND", "BITS", "BOUND", "BOUNDING", "BOUNDS",
    "BYTES", "CODES", "DECIDE", "DROPPED", "EMITTING", "EXPIRY", "FIELD", "FIXED_PIECE", "FULL", "GATHER", "GIVEN",
    "GROUPING", "HEAP", "INDEX", "INT", "INTS", "KEEPING", "KEYED", "KEYS", "KEY_PIECE", "KEY_ROLE", "KEY_WORD",
    "LARGE_TEXT_PIECE", "LATE", "LEAST", "LEAVING", "LINK", "MINUS", "MORE", "NAMING", "NAN_BITS", "NAN_ORDINAL",
    "NO_KEY", "OPERATOR", "ORDINAL_PIECE", "OUTPUT", "PIECE", "PLUS", "PROBING", "PRUNING", "RETIRING", "RING",
    "ROOM", "RUNS", "Register", "SIDE", "SLICE", "SOURCE", "STORE", "STORED", "STORING", "SUM", "SWEEP", "TERM", "TEXT",
    "TEXT_ALONE", "TEXT_PIECE", "TIDY", "TIMES", "TRACKER", "USABLE", "VALIDITY_PIECE", "VALIDITY_WORD",
    "VALUE_WORD", "WILD", "WORDS", "as_words", "blank", "placed", "words_in", "words_of",
]


def _record(*lines: str) -> np.dtype:
    return np.dtype([(name, np.int64) for line in lines for name in line.split()])


OPERATOR = _record(
    "phase n n_kept n_left n_dead n_pairs n_late cursor moved side",  # the push under way
    "row node steps missed n_chosen probe_end",  # how far its probe is
    "late_rows peak_rows pushes largest",
    "live_keys n_ids n_free free table_size slots_size key_kind",
    "passed stirred",  # places of other keys that this push has passed by; whether keys have places as at random
    "n_named grows",  # rows of the batch whose keys have ids; whether room for keys is made as they are named
    "table slots spans arena rest key_sizes",  # address
    "arena_room arena_top key_bytes",
    "room_rows room_pairs dead_size",
    "values absent marks usable key_ids matched kept left dead every chosen kept_at chosen_at pair_rows pair_places",
    "state_at",  # address
    "batch_size within raises drops never full_predicate rekeyed prepared masked blocks n_fields out_which",
    "loosens by_ring",  # whether rows may be in no list; whether matches are found in the ring, or in lists
    "sides in_struct out_struct releaser spares in_values in_valid fields",  # address
)
SIDE = _record(
    "lo hi live cap n_axes ordered nothing in_kernel ended sorted",
    "n_bands n_primary n_sources n_columns n_stored n_trackers n_terms fitted",
    "rows bands sources columns stored rings trackers terms bounds expiry",  # address
    "least most peak_span steps linked refused probed retired rows_in trimmed",
    # The id from which on rows lie in the first axis's order; where the last probe in order has ended, and whether the
    # last probe was one; 1 + the first id of the rows that are in no list, 0 where all are.
    "since swept sweeps loose",
    # Where Python knows more of the other side's later rows than their orders say: after how many of them it is asked,
    # 0 where it does not, and at the least; how many have come since; how often more before it is put off, and then.
    "look_every look_least unlooked looks_left looks_next",
    "owes keeps semi single mode decide by_python patience has_nulls beyond packs n_pieces",
    "n_key_words n_key_pieces n_texts n_checks n_sums",
    "key_words pieces texts checks extents sums",  # address
)
# A column, or an expression that Python computes (column -1), as ordinals; or a column as doubles, with another or a
# number (``number``, as bits) added, taken off or multiplied (``arithmetic``). LEAST: of source ``second``, with
# ``second_code`` added to its ordinal, the least double that the number, added, brings there.
SOURCE = _record(
    "column code guard_low guard_high low high spares_nan role has_absent", "arithmetic second second_code number"
)
# An axis behind those that are stored: one of these, and the double of such bits.
SUM = _record("axis number")
TRACKER = _record(
    "edge limit seen_value seen_null", "source descending slack more_slack is_float in_python next start low high"
)
TERM = _record("axis tracker low high least most")
BOUND = _record("low high least most")  # of an axis
EXPIRY = _record("used last bound cursor heap size room")  # [axis, falling]
# A stored column that the kernel keeps. Of one that is an axis or the key the width is 0; the ring is 1 if these are
# the ordinals of doubles.
STORED = _record("column ring width valid")
# An output column; of text, the width is that of an offset. Alike: what is equal has the same bytes.
FIELD = _record("left right width alike kind")
# A piece of a key that is a byte string: where it comes from (a source or a column, -1: not), and whether a null in it
# is a value like any other.
KEY_PIECE = _record("kind source column width safe nulls")
# A word of a key that is ordinals: a row of the values that are read, or where a null is a value, one made of them.
KEY_WORD = _record("row source kind")
# A schema's column as it is stored; the values of one that is no words are its TEXT record. Stride 0: the key, a word;
# of text -1 - k: piece k of the key, which is a byte string; of words less than 0: ordinals of doubles, so far apart.
# Filed: of a column in files, whose records for the batch to be built were read: the bit of a byte, ``valid`` in the
# first record, that says whether the value is there.
RING = _record("values stride valid filed")
# A stored column of text, or of bools: those have starts alone, their values. Of the arena, ``room`` bytes may be used.
TEXT = _record("column kind start_width offset_width room top base next wanted", "starts arena valid")  # address

# A slice: two batches that are joined as a whole, see ``slice_join``. ``probe`` is the side whose rows ask, the other
# one is the build side; of both, the rows from ``from`` to ``to`` are owned, and the others are copies.
SLICE = _record(
    "phase probe key_kind n_ids room block_rows n_fields",
    "probe_from probe_to build_from build_to",
    "segment keyed exact rises n_pairs asked cursor total listed which",  # how far it has come
    "turned_by",  # entries between the two arrays of ``turned``
    "operators first last spare probe_ids build_ids ends rows table words used turned",  # address
    "out_probe out_build at to clean state",  # address
)

# What a push says when it returns, added up. All but OUTPUT, TIDY and SWEEP ask for something and a further call.
# HEAP comes with ROOM: of rows out of order.
OUTPUT, MORE, ROOM, LATE, TIDY, SWEEP, FULL = 1, 2, 4, 8, 16, 32, 64
DECIDE, GATHER, STORE, BOUNDS, INDEX, RUNS, PIECE, HEAP, BEYOND, KEYS = (
    128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536
)

# How far it has come.
BEGIN, PROBING, EMITTING, KEEPING, STORING, LEAVING, BOUNDING, PRUNING, RETIRING, NAMING, GROUPING = range(11)

LINK = 2  # in place of a side, in a call that puts all rows into lists
TEXT_ALONE, ARRAYS = 1, 2  # what a side has that the push does not store
WORDS, BYTES, BITS = range(3)  # kinds of column
NO_KEY, INT, INTS, GIVEN = range(4)  # kinds of key: none, one ordinal, several, byte strings
AS_READ, VALUE_WORD, VALIDITY_WORD = range(3)  # of a source: its value; the value, 0 for a null; whether there is one
ORDINAL_PIECE, TEXT_PIECE, LARGE_TEXT_PIECE, FIXED_PIECE, VALIDITY_PIECE = range(5)
AS_DOUBLE, PLUS, MINUS, TIMES, LEAST = range(1, 6)  # arithmetic of a source
USABLE, KEYED, WILD, DROPPED = 1, 2, 4, 8  # marks of a row that came
BAND_ROLE, KEY_ROLE = 1, 2  # what a null in a source means for its row

NAN_ORDINAL = 0x7FF0_0000_0000_0001  # as in ``ivjoin.expr.ordinal``
NAN_BITS = 0x7FF8_0000_0000_0000  # of the NaN that stands for all of them

# How a source is read.
I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, D128 = range(1, 12)
CODES = {
    ("i", 1): I8, ("i", 2): I16, ("i", 4): I32, ("i", 8): I64, ("u", 1): U8, ("u", 2): U16, ("u", 4): U32,
    ("u", 8): U64, ("f", 4): F32, ("f", 8): F64, ("d", 16): D128,
}


# numpy makes, copies and sets structured values several times more slowly than the words that they are.


def blank(record: np.dtype, n: int) -> np.ndarray:
    """``n`` records of zeros."""
    return np.zeros(n * words_in(record), dtype=np.int64).view(record)


def as_words(table: np.ndarray) -> np.ndarray:
    """The words of a table of records, flat: the same memory."""
    base = table.base
    if type(base) is np.ndarray and base.dtype == np.int64 and base.ndim == 1 and base.nbytes == table.nbytes:
        return base  # a ``blank`` one
    return table.reshape(-1).view(np.int64)


def placed(record: np.dtype, **fields: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields of a record as the words that they are and their values : int64[n] each, to be written at once."""
    words = words_of(record)
    return np.array([words[name] for name in fields]), np.array([int(v) for v in fields.values()], dtype=np.int64)


def words_in(record: np.dtype) -> int:
    """How many words a record has."""
    return record.itemsize // 8


def words_of(record: np.dtype) -> dict[str, int]:
    """Which word of a record each field is."""
    assert record.fields is not None
    return {name: int(where[1]) // 8 for name, where in record.fields.items()}


class Register:
    """An attribute that lives in a record: ``obj._registers`` is the record as int64 words."""

    __slots__ = ("_at",)

    def __init__(self, record: np.dtype, name: str) -> None:
        assert record.fields is not None
        self._at = record.fields[name][1] // 8

    def __get__(self, obj: Any, owner: Any = None) -> int:
        return obj._registers.item(self._at)

    def __set__(self, obj: Any, value: int) -> None:
        obj._registers[self._at] = value
