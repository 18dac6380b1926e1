"""Keys that are local times or days on one side and instants on the other: of the join's zone, in the output too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import ivjoin

LOCAL = [datetime(2024, 3, 10, 1, 30), datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30), None]
DAYS = [date(2024, 3, 10), date(2024, 11, 3), None, date(2024, 11, 4)]


def instant(at: datetime | date, zone: str) -> datetime:
    """The earlier of two instants; in a gap, later by the length of the gap, as in Spark."""
    plain = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
    return plain.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(UTC)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("given, t", [(LOCAL, pa.timestamp("us")), (LOCAL, pa.timestamp("ms")), (DAYS, pa.date32())])
@pytest.mark.parametrize("turned", [False, True])
def test_they_compare_as_in_a_condition(given: list[Any], t: pa.DataType, zone: str, turned: bool) -> None:
    instants = [instant(x, zone) for x in given[:-1] if x is not None] + [datetime(2020, 1, 1, tzinfo=UTC)]
    local = pa.table({"k": pa.array(given, t), "v": range(len(given))})
    other = pa.table({"k": pa.array(instants, pa.timestamp("us", "UTC")), "w": range(len(instants))})
    sides = (other, local) if turned else (local, other)
    out = ivjoin.band_join(*sides, on="k", how="full", timezone=zone).read_all()
    rows = {(r["k"], r["v"], r["w"]) for r in out.to_pylist()}
    want = {(instant(x, zone), i) for i, x in enumerate(given) if x is not None}
    assert out.schema.field("k").type == pa.timestamp("us", "UTC")
    assert {(k, v) for k, v, _ in rows if v is not None and k is not None} == want
    assert {v for k, v, _ in rows if k is None} == {i for i, x in enumerate(given) if x is None}
    pairs = {(v, w) for _, v, w in rows if None not in (v, w)}
    assert pairs == {(v, w) for k, v in want for w, u in enumerate(instants) if u == k} and len(pairs) >= 2
    asked = ivjoin.band_join(*sides, condition="l.k = r.k", timezone=zone).read_all()
    assert pairs == set(zip(asked["v"].to_pylist(), asked["w"].to_pylist(), strict=True))


def test_time_outside_the_type_is_named() -> None:
    early = pa.table({"k": pa.array([-(2**63)], pa.timestamp("us"))})
    other = pa.table({"k": pa.array([0], pa.timestamp("us", "UTC"))})
    with pytest.raises(ivjoin.IvjoinError, match="k"):
        ivjoin.band_join(early, other, on="k", how="left", timezone="Asia/Tokyo").read_all()


@pytest.mark.parametrize("given, ticks", [
    (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), 2**31 - 1),
    (pa.array([2**62]).view(pa.timestamp("s")), 2**62),
])  # fmt: skip
def test_days_outside_python_are_named_by_ticks(given: pa.Array, ticks: int) -> None:
    other = pa.table({"k": pa.array([0], pa.timestamp("us", "UTC"))})
    with pytest.raises(ivjoin.EvaluationError, match=f"the key column 'k' .* {ticks} cannot be cast"):
        ivjoin.band_join(pa.table({"k": given}), other, on="k", how="left", timezone="UTC").read_all()
