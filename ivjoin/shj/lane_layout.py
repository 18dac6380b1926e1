"""Where the fused kernel finds everything: places in its register file, and what its status means.

The registers are one int64 array: scalars, and the addresses of all other arrays. A side has a block of its own.
"""

from __future__ import annotations

# What a call says when it returns, added up.
OUTPUT = 1  # a batch lies in the output struct
MORE = 2  # call again to go on with this push
DECLINED = 4  # nothing was changed: the batch has something that this kernel does not do
ROOM = 8  # nothing was changed: a ring, the key table or the scratch is too small
TIDY = 16  # done, and there is room or a list to give back
PRUNE = 32  # done but for pruning, whose bounds are out of the ordinary
FULL = 64  # no memory for an output batch
SWEEP = 128  # done, and there are keys to take back

# How far a push has come.
BEGIN, PROBING, KEEPING, LEAVING, PRUNING, RETIRING = range(6)

# Registers of the push and of the operator.
PHASE = 0
STATE = 1  # four of them, the probe's
N, CURSOR, N_KEPT, N_LEFT, N_DEAD = 5, 6, 7, 8, 9
PEAK_ROWS, PUSHES = 11, 12
TABLE, TABLE_SIZE, KEY_OF, SLOTS, SLOTS_SIZE, FREE, N_IDS, N_FREE, LIVE_KEYS, KEYED = range(16, 26)
ROOM_ROWS, VALUES, KIDS, MATCHED_ROWS, KEPT, LEFT, DEAD, DEAD_SIZE, PAIRS_SIZE, PAIR_ROWS, PAIR_IDS = range(28, 39)
IN_STRUCT, OUT_STRUCT, RELEASER, BATCH_SIZE, IN_POINTERS, WITHIN, FIELDS, N_FIELDS = range(39, 47)
STATE_AT, CHOSEN, N_CHOSEN, EVERY, KEPT_AT, CHOSEN_AT = range(47, 53)
REGISTERS = 64

# Registers of a side, from its base on.
(
    ROWS, REFUSED, CAP, LO, HI, LIVE, N_AXES, ORDERED, BANDS, N_BANDS, N_PRIMARY, TERMS, N_TERMS, SOURCES, N_SOURCES,
    COLUMNS, N_COLUMNS, STORED, N_STORED, TRACKERS, N_TRACKERS, BOUNDS, NOTHING, RETIRED, ROWS_IN, DEATHS, MARKS, OWES,
    KEEPS, KEY_SOURCE, PEAK_SPAN, STEPS, LINKED, RINGS, LEAST, MOST, PROBED,
) = range(37)
SIDE = 40
TOTAL = REGISTERS + 2 * SIDE

# Columns of the tables.
S_COLUMN, S_CODE, S_LOW, S_HIGH = range(4)  # sources
T_SOURCE, T_DESCENDING, T_SLACK, T_EDGE, T_LIMIT, T_NEXT, T_LOW, T_HIGH, T_FLOAT, T_START = range(10)
T_WIDTH = 10  # trackers
P_AXIS, P_TRACKER, P_LO, P_HI, P_LEAST, P_MOST = range(6)  # terms
B_LOW, B_HIGH, B_LEAST, B_MOST = range(4)  # bounds of an axis
D_USED, D_LAST, D_BOUND = range(3)  # deaths: [axis, falling]

# Of a float that is NaN: the bits of +inf, and one more (``ivjoin.expr.ordinal``).
NAN_ORDINAL = 0x7FF0_0000_0000_0001

# How a source is read.
I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, D128 = range(1, 12)
CODES = {
    ("i", 1): I8, ("i", 2): I16, ("i", 4): I32, ("i", 8): I64, ("u", 1): U8, ("u", 2): U16, ("u", 4): U32,
    ("u", 8): U64, ("f", 4): F32, ("f", 8): F64, ("d", 16): D128,
}
