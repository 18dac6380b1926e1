"""Every argument of every public call with values that make no sense: accepted on purpose, or an IvjoinError."""

from __future__ import annotations

import json
import zlib
from fnmatch import fnmatchcase
from typing import Any

import pytest
from bad_values import CALLS, VALUES, operator

import ivjoin

_INTS = {"3", "-1", "300", "numpy int"}
_HUGE = {"2**63", "2**70"}
_REALS = _INTS | _HUGE | {"0.5", "1e300", "inf", "-inf"}
_ANY_NUMBER = _REALS | {"10**5000", "Decimal inf", "Decimal huge", "Decimal tiny", "Fraction"}
_TEXTS = {"empty text", "blank text", "text", "long text", "brackets", "sums", "NUL"}
_WHEN = {"date", "datetime"}
_SOME = {"None"}

# What has a meaning, by the call and its argument; the first pattern that fits. All else must raise an IvjoinError.
ACCEPTED: list[tuple[str, set[str]]] = [
    ("band_join on", _SOME | {"empty list"}), ("explain condition", set()), ("* condition", _SOME),
    ("band_join *_order", _SOME | {"empty list", "constant"}),
    ("band_join *_bounds", _SOME | {"empty dict"}),
    ("band_join on_late", {"function", "type"}),  # what can be called
    ("band_join suffix", _TEXTS - {"empty text"}),
    ("band_join batch_size", _INTS - {"-1"}), ("band_join threads", _INTS - {"-1"}), ("band_join timezone", _SOME),
    ("explain frontier", _SOME | {"empty dict"}), ("explain frontier values", {"empty dict"}),
    ("explain frontier name", {"constant"}),
    ("explain frontier value_of_a", {"3", "0.5", "numpy int"}),
    ("explain frontier value_of_f", _REALS | {"Arrow scalar"}),
    ("finish side", _SOME), ("reach edges", {"list of None"}), ("reach edge", _SOME | _INTS),
    ("Order expr", set(VALUES)),  # read where the columns are known, as `join order_expr`
    ("Order descending", {"True", "numpy bool"}),
    ("Order slack", _SOME | _HUGE | {"3", "300", "0.5", "1e300", "inf", "Decimal inf", "timedelta"}),
    ("Order nulls", _SOME), ("join order_*", {"constant"}), ("join slack_of_b", _SOME),
    ("join slack_of_t", _SOME | {"timedelta"}),
    ("join slack_of_d", _SOME | _HUGE | {"3", "300", "0.5", "1e300", "timedelta"}),
    ("join slack_of_[kafm]", _SOME | _HUGE | {"3", "300", "0.5", "1e300"}),
    ("join *_of_[km]", _SOME | _INTS | {"0.5", "Arrow scalar"}),
    ("join *_of_a", _SOME | {"3", "0.5", "numpy int"}), ("join *_of_f", _SOME | _REALS | {"Arrow scalar"}),
    ("join *_of_b", _SOME | {"True", "numpy bool"}), ("join *_of_[td]", _SOME | _WHEN),
    ("join bounds_name", {"constant"}),
    ("join condition constant", _SOME | _REALS | {"nan", "numpy float", "Arrow scalar", "Arrow null", "constant"}),
    ("advance value_of_[km]", _INTS | {"0.5", "Arrow scalar"}),
    ("advance value_of_a", {"3", "0.5", "numpy int"}), ("advance value_of_f", _REALS | {"Arrow scalar"}),
    ("advance value_of_b", {"True", "numpy bool"}), ("advance value_of_[td]", _WHEN), ("advance name", {"constant"}),
    ("prune_row_groups predicate", _SOME), ("contract effort", _INTS - {"-1"}), ("contract name", _TEXTS),
    ("* type", {"Arrow type"}), ("contract * of string", _SOME | _TEXTS),
    ("contract * of binary", _SOME | {"bytes", "bytearray"}),
    ("contract * of bool", _SOME | {"True", "numpy bool"}),
    ("contract * of date", _SOME | _INTS | _WHEN | {"Arrow scalar"}),
    ("contract * of timestamp*", _SOME | _INTS | _WHEN | {"Arrow scalar"}),
    ("contract * of duration*", _SOME | _INTS | {"timedelta", "time", "Arrow scalar"}),
    ("contract * of time*", _SOME | _INTS - {"-1"} | {"time", "Arrow scalar"}),
    ("contract * of *", _SOME | _ANY_NUMBER | {"Arrow scalar"}),
    ("Interval inf", {"True", "numpy bool", "3", "-1", "numpy int", "0.5", "-inf", "Decimal tiny", "Fraction"}),
    ("Interval sup", _ANY_NUMBER - {"-1", "-inf"} | {"True", "numpy bool"}),
    ("DomainInterval inf", _SOME | {"3", "-1", "numpy int", "0.5", "-inf", "Decimal tiny", "Fraction"}),
    ("DomainInterval sup", _SOME | _ANY_NUMBER - {"-1", "-inf"}),
    ("DomainInterval * of date", _SOME | _INTS | _HUGE | _WHEN | {"10**5000"}),
    ("DomainInterval * of timestamp*", _SOME | _INTS | _HUGE | _WHEN | {"10**5000"}),
    ("DomainInterval * of duration*", _SOME | _INTS | _HUGE | {"timedelta", "10**5000"}),
    ("DomainInterval * of time*", _SOME | _INTS | _HUGE | {"time", "10**5000"}),
    ("DomainInterval * of *", _SOME | _ANY_NUMBER),
]
# A long text that is the expression itself may be quoted whole.
_QUOTED = ("condition", "function", "predicate")


def accepted(call: str) -> set[str]:
    return next((values for pattern, values in ACCEPTED if fnmatchcase(call, pattern)), set())


def outcome(call: str, value: Any) -> str | None:
    """None if the value was refused as it should be, else what happened."""
    try:
        CALLS[call](value)
    except ivjoin.IvjoinError as e:
        text = str(e)
        if len(text) <= 15 or (len(text) > 1500 and not any(q in call for q in _QUOTED)):
            return f"a message of {len(text)} characters"
        return None
    except OSError as e:
        return None if call == "prune_row_groups parquet_file" else repr(e)
    except TypeError as e:
        return None if "hash" in str(e) else repr(e)  # no key of a dict: Python's own word, before it comes to us
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return "accepted"


@pytest.mark.one_in(41)
@pytest.mark.parametrize("call", CALLS)
def test_a_bad_value_is_refused_by_name(call: str) -> None:
    wrong = {name: said for name, make in VALUES.items() if (said := outcome(call, make()))}
    fine = {name for name in wrong if wrong[name] == "accepted" and name in accepted(call)}
    assert fine == accepted(call), "refused, though it has a meaning"
    assert {name: said for name, said in wrong.items() if name not in fine} == {}


def crafted(**changes: Any) -> bytes:
    """A snapshot with a fitting checksum and another header."""
    blob = operator().snapshot()
    size = int.from_bytes(blob[14:22], "little")
    header = json.loads(blob[22 : 22 + size]) | changes
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + blob[22 + size :]
    return blob[:10] + zlib.crc32(body).to_bytes(4, "little") + body


@pytest.mark.parametrize("key", ["plan", "frontiers", "metrics", "led", "sizes"])
def test_a_snapshot_of_another_program_is_refused(key: str) -> None:
    assert ivjoin.SymmetricHashJoin.restore(crafted()).metrics.rows_out == 0
    for value in (None, 3, "x", [[], None], [3, "x"], {"x": 3}):
        with pytest.raises(ivjoin.SnapshotError, match="damaged"):
            ivjoin.SymmetricHashJoin.restore(crafted(**{key: value}))
