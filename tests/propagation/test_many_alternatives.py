"""A condition with many alternatives costs no more than its length, and its bounds stay correct."""

from __future__ import annotations

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.propagation import dag


@pytest.mark.parametrize("term", ["l.t <> r.t + {}", "(l.t > {} OR r.t < {})"])
def test_the_work_for_alternatives_is_limited(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    monkeypatch.setattr(dag.Propagator, "split", _counted(dag.Propagator.split, work))
    schema = pa.schema({"t": pa.int64()})
    condition = " AND ".join(term.format(i, i) for i in range(400))
    text = ivjoin.explain(schema, schema, condition=condition, left_order="t", right_order="t", allow_cross=True)
    assert "frontier" in text
    assert work
    assert max(work) <= dag._MOST_WORK


def _counted(split, work):  # type: ignore[no-untyped-def]
    def counted(self, s, *args, **more):  # type: ignore[no-untyped-def]
        work.append(len(self._cases) * len(self.nodes))
        return split(self, s, *args, **more)

    return counted


@pytest.mark.parametrize("most", [0, 1 << 17])
def test_rows_of_many_alternatives(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag, "_MOST_WORK", most)
    left, right = pa.table({"t": range(40)}), pa.table({"t": [*range(0, 40, 3), 5, 5]})
    condition = "l.t - r.t BETWEEN 0 AND 9 AND l.t <> r.t + 2 AND (l.t > 20 OR r.t < 10) AND (l.t <> 7 OR r.t > 4)"
    got = ivjoin.band_join(
        left, right.sort_by("t"), condition=condition, left_order="t", right_order="t", suffix="_"
    ).read_all()
    pairs = [
        (x, y) for x in left["t"].to_pylist() for y in right["t"].to_pylist()
        if 0 <= x - y <= 9 and x != y + 2 and (x > 20 or y < 10) and (x != 7 or y > 4)
    ]  # fmt: skip
    assert sorted(zip(got["t"].to_pylist(), got["t_"].to_pylist(), strict=True)) == sorted(pairs)
