"""Plans that follow a stream, in an object store: the files, and a query that is killed and restarted."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from object_store import ObjectStore

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("s3fs", reason="s3fs is not installed (pip install 'ivjoin[s3]')")
pytest.importorskip("moto", reason="moto is not installed")

from spark.following import FAR, ROWS, expected, follow, piece, started_to_follow, without_end
from spark.killed import committed, kill_once
from spark.script import Script

from ivjoin.errors import IvjoinError, SnapshotError
from ivjoin.files.atomic import FileError
from ivjoin.files.once import once_folder
from ivjoin.spark.spread.replanning import PlanFile, PlanFiles, checked_folder

FOLDER = "s3://plans/clicks/views"


def file(number: int = 3, query: str = "a query", join: str = "a join") -> PlanFile:
    return PlanFile(number, query, join, {"first": 0, "starts": [], "plans": [{"hot": [], "width": 8, "grid": None}]})


@pytest.mark.slow
def test_files_are_written_once_and_read_as_they_were(store: ObjectStore) -> None:
    assert checked_folder(FOLDER) == FOLDER
    files, others = PlanFiles(FOLDER, "a join"), PlanFiles(FOLDER.replace("s3:", "s3a:"), "a join")
    assert files.newest(9, "a query") is None
    files.create(file(3))
    others.create(file(12))
    files.create(PlanFile(3, "a query", "a join", {"first": 9}))
    assert files.numbers() == [3, 12]
    assert others.newest(12, "a query") == file(3)
    assert files.newest(13, "a query") == file(12)
    said = r"'s3://plans/clicks/views/plan-12.json' is of a later micro-batch than this"
    with pytest.raises(SnapshotError, match=said):
        files.newest(3, "a query")
    with pytest.raises(SnapshotError, match=r"'s3://plans/clicks/views/plan-3.json' was written by another query"):
        files.create(file(3, query="another"))
    assert store.held() == ["clicks/views/plan-12.json", "clicks/views/plan-3.json"]


@pytest.mark.slow
def test_damaged_foreign_and_deleted_files_are_refused(store: ObjectStore) -> None:
    files, folder = PlanFiles(FOLDER, "a join"), once_folder("routing_dir", FOLDER)
    folder.create("plan-1.json", file(1).text()[:-40])
    folder.create("plan-2.json", file(1).text())
    folder.create("plan-3.json", b"")
    folder.create("plan-4.json", file(4, join="another").text())
    for number, said in ((1, "or is damaged. Put it back"), (2, "its digest does not fit"), (3, "or is damaged"),
                         (4, "or by this one with other arguments")):  # fmt: skip
        with pytest.raises(SnapshotError, match=rf"plan-{number}.json' .*{said}"):
            files.read(number, None)
    with pytest.raises(SnapshotError, match=r"plan-4.json' was written by another query"):
        files.newest(5, "a query")
    with pytest.raises(FileError, match=r"'s3://plans/clicks/views/plan-5.json' cannot be read: there is no such file"):
        files.read(5, "a query")
    store.refused = {"PUT"}
    with pytest.raises(FileError, match=r"routing_dir 's3://plans/clicks/views' cannot be written: .*Denied"):
        files.create(file(6))
    store.refused = {"GET"}
    with pytest.raises(FileError, match=r"routing_dir 's3://plans/clicks/views' cannot be read \(.*Denied"):
        files.numbers()
    assert store.held() == [f"clicks/views/plan-{n}.json" for n in range(1, 5)]


@pytest.mark.soak
@pytest.mark.spark
def test_a_driver_killed_when_a_plan_was_put(spark: Any, tmp_path: Path, store: ObjectStore) -> None:
    script = Script(spark, tmp_path, lambda a, b: None, ROWS, ROWS)
    for b in range(5):
        script.add(left=piece(0, b), right=piece(1, b))
    second = "clicks/views/plan-2.json"
    kill_once(lambda: second in store.held(), started_to_follow(tmp_path, how="full", routing_dir=FOLDER))
    assert second in store.held() and committed(tmp_path) < 5, "the query was to be killed while it ran"
    files = once_folder("routing_dir", FOLDER)
    held = {name: files.read(name) for name in files.names() if not name.startswith(".")}
    assert sorted(held)[:2] == ["plan-0.json", "plan-2.json"]
    assert json.loads(held["plan-2.json"])["number"] == 2
    script.add(left=[(-1, FAR, -1)], right=[(-1, FAR, -2)])
    again = started_to_follow(tmp_path, how="full", routing_dir=FOLDER)
    try:
        assert again.wait(240) == 0
    finally:
        if again.poll() is None:
            os.killpg(again.pid, signal.SIGKILL)
    assert {name: files.read(name) for name in held} == held
    assert without_end(script.output()) == expected(5, "full")
    assert {condition for name, condition in store.puts if "plan-" in name} == {"*"}


@pytest.mark.spark
def test_a_query_that_cannot_start_says_why(spark: Any, tmp_path: Path, store: ObjectStore) -> None:
    rate = spark.readStream.format("rate").load().selectExpr("value AS k", "value AS t", "value AS v")
    for folder, said in (("s3://another/x", r"which cannot be written \(there is no such bucket\)"),
                         ("sftp://host/x", "where two writers of one file might both succeed; expected")):  # fmt: skip
        with pytest.raises(IvjoinError, match=said):
            follow(rate, rate, tmp_path, routing_dir=folder)
    follow(rate, rate, tmp_path, routing_dir=FOLDER)
    assert store.held() == []
