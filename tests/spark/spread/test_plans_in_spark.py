"""Plans that follow a stream, in Spark: a heavy key, restarts, kills, messages and refusals."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.backends import BACKENDS, store_for
from spark.following import BAND, FAR, ROWS, SQL, expected, follow, piece, started_to_follow, without_end
from spark.killed import committed, kill_once
from spark.script import Script, StreamFailed
from spark.second_opinion import joined

from ivjoin.errors import IvjoinError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("backend, how", [
    (BACKENDS[0], "full"), pytest.param(BACKENDS[1], "left", marks=pytest.mark.soak),
])  # fmt: skip
def test_a_heavy_key_is_spread_and_every_row_comes_once(spark: Any, tmp_path: Path, backend: str, how: str) -> None:
    with store_for(spark, backend):
        script = Script(spark, tmp_path, lambda a, b: follow(a, b, tmp_path, how=how, backend=backend), ROWS, ROWS)
        counts = []
        for part in (range(4), range(4, 7)):  # restarted in between
            for b in part:
                script.add(left=piece(0, b), right=piece(1, b))
            if b == 6:
                script.add(left=[(-1, FAR, -1)], right=[(-1, FAR, -2)])
            begin = time.monotonic()
            script.run()
            most = 1e6 * (time.monotonic() - begin)
            counts += script.counts()
            for c in counts[-len(part) :]:
                assert 0 < c["production_delay_us"] <= c["peak_production_delay_us"] < most
                assert c["peak_production_delay_us"] == max(b["peak_production_delay_us"] for b in c["buckets"])
        counts.pop()  # the end, in a micro-batch of its own
        assert without_end(script.output()) == expected(7, how)
        shares = []
        for c in counts:
            rows = [b["left_rows_in"] + b["right_rows_in"] for b in c["buckets"]]
            assert [b["bucket"] for b in c["buckets"]] == [0, 1, 2]
            assert sum(rows) == c["left_rows_in"] + c["right_rows_in"]
            assert sum(b["rows_out"] for b in c["buckets"]) == c["rows_out"]
            assert sum(b["state_rows"] for b in c["buckets"]) == c["state_rows"]
            shares.append(max(rows) * 3 / sum(rows))
        assert shares[2] > 1.6
        assert len(shares) == 7
        assert max(shares[5:]) < 1.3, shares
        numbers = sorted(int(p.stem.partition("-")[2]) for p in (tmp_path / "plans").iterdir())
        assert numbers[:2] == [0, 2]


@pytest.mark.soak
def test_a_driver_killed_when_a_plan_was_written(spark: Any, tmp_path: Path) -> None:
    script = Script(spark, tmp_path, lambda a, b: follow(a, b, tmp_path, how="full"), ROWS, ROWS)
    for b in range(5):
        script.add(left=piece(0, b), right=piece(1, b))
    second = tmp_path / "plans" / "plan-2.json"
    kill_once(second.exists, started_to_follow(tmp_path, how="full"))
    assert second.exists() and committed(tmp_path) < 5, "the query was to be killed while it ran"
    held = second.read_bytes()
    script.add(left=[(-1, FAR, -1)], right=[(-1, FAR, -2)])
    script.run()
    assert second.read_bytes() == held
    assert without_end(script.output()) == expected(5, "full")


def test_a_repeated_micro_batch_follows_its_first_plans(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit is deleted, and with it the record in the state's commit."""
    script = Script(spark, tmp_path, lambda a, b: follow(a, b, tmp_path, how="left_semi"), ROWS, ROWS)
    for b in range(4):
        script.add(left=piece(0, b), right=piece(1, b))
    script.run()
    plans = {p.name: p.read_bytes() for p in (tmp_path / "plans").iterdir()}
    assert "plan-2.json" in plans
    (tmp_path / "checkpoint" / "commits" / "3").unlink()
    (tmp_path / "checkpoint" / "commits" / ".3.crc").unlink(missing_ok=True)
    for b in range(4, 6):
        script.add(left=piece(0, b), right=piece(1, b))
    script.run()
    for name, held in plans.items():
        assert (tmp_path / "plans" / name).read_bytes() == held
    tables = []
    for side in (0, 1):
        rows = [r for b in range(6) for r in piece(side, b)]
        tables.append(pa.table([pa.array(c, pa.int64()) for c in zip(*rows, strict=True)], schema=ROWS))
    assert script.output() == joined(tables[0], tables[1], "left_semi", SQL, "l.k, l.t, l.v")


def test_no_key_at_all(spark: Any, tmp_path: Path) -> None:
    buckets = 4
    join = {"on": None, "buckets": buckets}
    script = Script(spark, tmp_path, lambda a, b: follow(a, b, tmp_path, **join), ROWS, ROWS)
    script.add(left=piece(0, 0, 900), right=piece(1, 0, 900)).run()
    for c in script.counts():
        rows = [b["left_rows_in"] + b["right_rows_in"] for b in c["buckets"]]
        assert len(rows) == buckets
        assert max(rows) * buckets < 1.3 * sum(rows), rows


def test_messages_and_refusals(spark: Any, tmp_path: Path) -> None:
    from ivjoin.spark import explain

    rate = spark.readStream.format("rate").load().selectExpr("value AS k", "value AS t", "value AS v")
    given: dict[str, Any] = {"left_order": "t", "right_order": "t", "buckets": 4, "routing_dir": str(tmp_path / "p")}
    text = explain(rate, rate, on="k", condition=BAND, hot_keys=[7], **given)
    assert text.startswith("streaming: rows in 4 buckets, by plans that follow the stream, kept in ")
    assert "plan 0, from the beginning: keys by their hash, 1 heavy one in slices of 124 ordinals" in text
    text = explain(rate, rate, on="k", condition="l.t >= r.t", **given)
    assert "hashed to 4 buckets by 1 key" in text
    assert "heavy ones stay in one each, since l.t has a band with one end alone" in text
    static = spark.createDataFrame([(1, 1, 1)], "k long, t long, v long")
    (tmp_path / "file").write_text("")
    for frame, options, said in (
        (rate, {"routing_dir": str(tmp_path / "file")}, "which is a file; expected a folder"),
        (rate, {"routing_dir": 7}, "routing_dir is 7; expected the path of a folder"),
        (rate, {"routing": "hash"}, "with routing='hash'; expected 'auto' or 'slices'"),
        (static, {}, "expected None: static frames follow one plan"),
    ):
        with pytest.raises(IvjoinError, match=said):
            frame.band_join(frame, on="k", condition=BAND, **{**given, **options})
    script = Script(spark, tmp_path / "s", lambda a, b: follow(a, b, tmp_path), ROWS, ROWS)
    script.add(left=piece(0, 0), right=piece(1, 0)).run()
    # the folder with another checkpoint: the driver cannot know, the first micro-batch does
    other = Script(spark, tmp_path / "other", lambda a, b: follow(a, b, tmp_path), ROWS, ROWS)
    other.add(left=piece(0, 0), right=piece(1, 0))
    with pytest.raises(StreamFailed, match="was written by another query"):
        other.run()
    with pytest.raises(IvjoinError, match="was written by another query, or by this one with other arguments"):
        follow(script.source("left"), script.source("right"), tmp_path, how="left")
    plan = tmp_path / "plans" / "plan-0.json"
    assert json.loads(plan.read_text())["number"] == 0
    plan.write_text(plan.read_text()[:-40])
    with pytest.raises(IvjoinError, match="is no routing plan of a stream, or is damaged"):
        follow(script.source("left"), script.source("right"), tmp_path)
