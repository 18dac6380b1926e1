"""Zone tables against zoneinfo, instant by instant: the past, the yearly rules, gaps, overlaps, skipped days."""

from __future__ import annotations

import datetime as dt
import random
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest

import ivjoin
from ivjoin.errors import ConditionError
from ivjoin.expr.kernels import zones as ops_zones
from ivjoin.expr.kernels.zones import zone_of

NAMES = [
    "America/New_York", "Europe/Paris", "Europe/Dublin", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Kathmandu",
    "Pacific/Apia", "Pacific/Kwajalein", "America/Havana", "America/St_Johns", "Antarctica/Troll", "Asia/Tehran",
    "America/Sao_Paulo", "Africa/Cairo", "Asia/Tokyo", "Etc/GMT-14", "Asia/Gaza", "America/Nuuk", "Africa/Monrovia",
    "Europe/Moscow", "America/Caracas", "EST5EDT", "Asia/Jerusalem", "Pacific/Chatham",
]  # fmt: skip
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST = int((dt.datetime(2, 1, 1, tzinfo=dt.UTC) - EPOCH).total_seconds())
LAST = int((dt.datetime(9998, 12, 31, tzinfo=dt.UTC) - EPOCH).total_seconds())


def offset_at(second: int, tz: dt.tzinfo) -> int:
    found = (EPOCH + dt.timedelta(seconds=second)).astimezone(tz).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def instants_of_note(name: str) -> list[int]:
    """Seconds around every change of the offset in some years, and random ones."""
    rng, tz = random.Random(name), zoneinfo.ZoneInfo(name)
    out = [rng.randint(FIRST, LAST) for _ in range(100)] + [rng.randint(-(2**31), 2**32) for _ in range(400)]
    for year in (1883, 1916, 1945, 1969, 1974, 1994, 2007, 2011, 2023, 2024, 2036, 2037, 2038, 2040, 2087, 2100,
        2399, 2401, 2440, 9000):
        second = int((dt.datetime(year, 1, 1, tzinfo=dt.UTC) - EPOCH).total_seconds())
        before = offset_at(second, tz)
        for day in range(1, 366, 3):
            later = second + day * 86_400
            if offset_at(later, tz) != before:
                low, high = later - 3 * 86_400, later
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if offset_at(middle, tz) == before else (low, middle)
                for d in (0, 1, 900, 1800, 3599, 3600, 7200, 86_400):
                    out += [high + d, high - d]
                before = offset_at(later, tz)
    return out


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", NAMES)
def test_offsets(name: str) -> None:
    seconds, tz = instants_of_note(name), zoneinfo.ZoneInfo(name)
    assert zone_of(name).offsets(np.array(seconds)).tolist() == [offset_at(s, tz) for s in seconds]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", NAMES)
def test_local_times_to_instants(name: str) -> None:
    zone, tz = zone_of(name), zoneinfo.ZoneInfo(name)
    rng = random.Random(name)
    local = [s + offset_at(s, tz) + d for s in instants_of_note(name)
        for d in (0, rng.choice([-3600, 1800, 3600, 86_400]))]
    local = [s for s in local if FIRST < s < LAST]

    def instant(s: int) -> int:
        # fold=0 is the earlier of two, and in a gap the offset before it, which moves forward by the gap.
        naive = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=s)
        found = naive.replace(tzinfo=tz, fold=0).utcoffset()
        assert found is not None
        return s - int(found.total_seconds())

    assert zone.instants(np.array(local)).tolist() == [instant(s) for s in local]


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back_with_the_offset_kept(name: str) -> None:
    zone = zone_of(name)
    seconds = np.array(instants_of_note(name))
    offsets = zone.offsets(seconds)
    assert (zone.instants(seconds + offsets, offsets) == seconds).all()
    # Without it, an instant in the second pass of an overlap becomes its twin of the first.
    back = zone.instants(zone.local(seconds))
    assert (back <= seconds).all() and (zone.local(back) == zone.local(seconds)).all()


def test_the_yearly_rule_repeats_every_400_years() -> None:
    zone = zone_of("America/New_York")
    seconds = np.arange(2_000_000_000, 2_100_000_000, 86_399 * 5, dtype=np.int64)
    for cycles in (1, 2, 50, 700):
        later = seconds + cycles * 146_097 * 86_400
        assert (zone.offsets(later + 200_000_000) == zone.offsets(seconds + 200_000_000)).all()


@pytest.mark.parametrize(
    "name, seconds",
    [("UTC", 0), ("Z", 0), ("GMT", 0), ("+02:00", 7200), ("-03:30", -12600), ("GMT+8", 28800), ("+0530", 19800),
        ("", 0),
     ("Etc/UTC", 0), ("Etc/GMT+5", -18000)],
)  # fmt: skip
def test_fixed_offsets(name: str, seconds: int) -> None:
    zone = zone_of(name)
    assert zone.fixed == seconds and zone.is_utc == (seconds == 0)
    assert zone.offsets(np.array([0, 1])).tolist() == [seconds] * 2
    assert zone.instants(np.array([seconds])).tolist() == [0]


def test_no_zone_is_utc() -> None:
    assert zone_of(None).is_utc


def test_unknown_zones() -> None:
    with pytest.raises(ConditionError, match="unknown time zone 'Mars/Olympus'"):
        zone_of("Mars/Olympus")


def test_the_table_is_read_from_the_package_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tzdata")
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    zone = ops_zones._read(zoneinfo.ZoneInfo("Europe/Paris"))
    seconds = np.array(instants_of_note("Europe/Paris"))
    # The package keeps no table past the last change of the rule: here the rule itself is asked.
    assert (zone.offsets(seconds) == zone_of("Europe/Paris").offsets(seconds)).all()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("text, seconds", [
    ("unix_timestamp(l.local)", 1709985600), ("to_unix_timestamp(l.local)", 1709985600),
    ("unix_seconds(l.local)", 1709985600), ("unix_timestamp(l.instant)", 1709985600),
    ("unix_timestamp(l.day)", 1709960400),
])  # fmt: skip
def test_unix_timestamp_of_a_time_without_a_zone_counts_in_utc(text: str, seconds: int, unit: str) -> None:
    """As in Spark, where only a date means the zone of the session."""
    noon = dt.datetime(2024, 3, 9, 12)
    left = pa.table({
        "local": pa.array([noon], pa.timestamp(unit)), "instant": pa.array([noon], pa.timestamp(unit, "UTC")),
        "day": pa.array([noon.date()]),
    })  # fmt: skip
    right = pa.table({"u": [seconds]})
    joined = ivjoin.band_join(left, right, condition=f"{text} = r.u", timezone="America/New_York")
    assert joined.read_all().num_rows == 1
