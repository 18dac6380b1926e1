"""The benchmarks' own machinery: right answers, detection of wrong answers and slow systems, the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import oracle
import pyarrow as pa
import pytest

from bench import answer, cell, multiway_state, multiway_views, report, routing, runner, tables
from bench.case import Band, Case
from bench.cases import ALL, named, select
from bench.cases.scaling import CASES as SCALING
from bench.cases.shapes import RESIDUALS, numbered
from bench.peers import PEERS
from bench.peers.base import Peer, Take, in_turn
from bench.shared_tables import datafusion_sql

SMALL = [c for c in ALL if "smoke" in c.tags]


def tiny(how: str = "inner", on: tuple[str, ...] = ("k",), residual: str = "abs") -> Case:
    text, band, holds = RESIDUALS[residual]
    return Case(
        f"tiny/{how}", "", lambda: (numbered(150, 4, 1, step=7), numbered(100, 4, 2, step=11)), text, band, on, how,
        holds=holds,
    )  # fmt: skip


@pytest.mark.one_in(29)
@pytest.mark.parametrize("residual", list(RESIDUALS))
@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("on", [("k",), (), ("k", "x")])
def test_the_expected_answer_is_that_of_a_nested_loop(how: str, on: tuple[str, ...], residual: str) -> None:
    case = tiny(how, on, residual)
    left, right = case.make()
    a, b = left.to_pylist(), right.to_pylist()

    def holds(p: dict[str, Any], q: dict[str, Any]) -> bool:
        d = p["s"] - q["s"]
        one = ({k: np.array([v]) for k, v in p.items()}, {k: np.array([v]) for k, v in q.items()})
        return case.band.lo <= d <= case.band.hi and (case.holds is None or bool(case.holds(*one)[0]))

    keys = [(lambda r, k=k: r[k], lambda r, k=k: r[k], False) for k in on]
    pairs = oracle.pairs(a, b, how, keys, holds)
    out = []
    for i, j in pairs:
        p, q = (None if i is None else a[i]), (None if j is None else b[j])
        row = {}
        for side, column, name in case.columns_out(left.schema, right.schema):
            here = p if side == "l" else q
            here = q if here is None and column in on else here
            row[name] = None if here is None else here[column]
        out.append(row)
    assert out
    schema = {name: pa.int64() for _, _, name in case.columns_out(left.schema, right.schema)}
    table = pa.Table.from_pylist(out, schema=pa.schema(list(schema.items())))
    assert answer.expected(case, left, right) == answer.row_sum(table)


def test_the_checksum_sees_every_change_but_order() -> None:
    table = pa.table({"a": [1, 2, None], "b": [0.5, -0.0, 2.0], "c": ["x", None, ""]})
    total = answer.row_sum(table)
    assert total.rows == 3
    assert answer.row_sum(table.take([2, 0, 1])) == total
    assert answer.row_sum(table.select(["c", "a", "b"])) == total
    assert answer.row_sum(table.slice(0, 1)) + answer.row_sum(table.slice(1)) == total
    assert answer.row_sum(table.set_column(0, "a", pa.array([1, 2, None], pa.int32()))) == total
    changed = [
        table.set_column(0, "a", pa.array([1, 2, 0])), table.set_column(1, "b", pa.array([0.5, 2.0, -0.0])),
        table.set_column(2, "c", pa.array(["x", "", ""])), table.rename_columns(["b", "a", "c"]), table.take([0, 0, 1]),
    ]  # fmt: skip
    assert len({answer.row_sum(t).checksum for t in changed} | {total.checksum}) == len(changed) + 1


@pytest.mark.one_in(11)
@pytest.mark.parametrize("case", [c for c in SMALL if c.how in ("inner", "full")], ids=lambda c: c.name)
def test_ivjoin_answers_every_smoke_case(case: Case, tmp_path: Path) -> None:
    truth = runner.write(case, tmp_path / "case")
    assert truth["rows"] > 0
    for name, batch in (("ivjoin", 100), ("ivjoin band_join", None)):
        spec = {"peer": name, "case": case.name, "batch": batch, "folder": str(tmp_path / "case"), "repeat": 1}
        got = cell.measure({**spec, "budget": 10, "rows": truth["rows"], "checksum": truth["checksum"]})
        assert got["status"] == "ok", got
        assert got["rows_out"] == truth["rows"]


def test_declared_orders_hold() -> None:
    for case in SMALL:
        for table in case.make():
            ordered = table.select([case.band.column]).drop_null()  # a null has no order
            s = answer._numbers(ordered, case.band.column)
            assert (np.maximum.accumulate(s) - s).max() <= case.slack, case.name


class Wrong(Peer):
    """A peer that leaves one row out."""

    name: ClassVar[str] = "wrong"

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._inner = PEERS["ivjoin"]()
        self._inner.prepare(case, left, right, batch, folder)

    def run(self, take: Take) -> None:
        pieces: list[pa.RecordBatch] = []
        self._inner.run(pieces.append)
        take(pieces[0].slice(1))
        for p in pieces[1:]:
            take(p)


class Swapped(Wrong):
    """A peer with as many rows as there should be, one of them twice."""

    def run(self, take: Take) -> None:
        pieces: list[pa.RecordBatch] = []
        self._inner.run(pieces.append)
        table = pa.Table.from_batches(pieces)
        take(table.take([0, *range(table.num_rows - 1)]).combine_chunks().to_batches()[0])


@pytest.mark.parametrize("peer", [Wrong, Swapped])
def test_a_wrong_answer_is_never_timed(peer: type[Peer], tmp_path: Path) -> None:
    case = named("window/10 rows/4000 rows")
    truth = runner.write(case, tmp_path / "case")
    spec = {"batch": 512, "folder": str(tmp_path / "case"), "repeat": 1, "budget": 1, **truth}
    got = cell.measure(spec, peer(), case)
    assert got["status"] == "wrong"
    assert "seconds" not in got


def test_a_run_writes_every_cell_and_the_brief_table_shows_them(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    arguments = ["seed/8 keys/4096 rows", "--in-process", "--repeat", "2", "--peers", "ivjoin", "--out", str(out)]
    assert runner.main(arguments) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["kind"] for r in records] == ["machine", "cell", "cell"]
    assert [r["batch"] for r in records[1:]] == list(named("seed/8 keys/4096 rows").batches)
    for r in records[1:]:
        assert r["status"] == "ok"
        assert r["runs"] == 2
        assert 0 < r["fastest"] <= r["seconds"] <= r["slowest"]
        assert 0 < r["peak_state_rows"] <= 2 * 4096
    assert "| 8 | 128 |" in report.brief([out])


@pytest.mark.slow
def test_a_cell_in_a_process_of_its_own_is_ended_at_its_limit(tmp_path: Path) -> None:
    case = named("window/10 rows/4000 rows")
    truth = runner.write(case, tmp_path / "case")
    spec = {"case": case.name, "peer": "ivjoin", "batch": 512, "folder": str(tmp_path / "case"), "cores": 1, **truth}
    assert runner.isolated({**spec, "repeat": 1, "budget": 5.0}, 0.05)["status"] == "slow"
    assert runner.isolated({**spec, "repeat": 1, "budget": 5.0}, 60.0)["status"] == "ok"
    failed = runner.isolated({**spec, "repeat": 1, "budget": 5.0, "peer": "nobody"}, 60.0)
    assert failed["status"] == "failed"
    assert "nobody" in failed["detail"]


def test_peer_refusals_differ_from_failures(tmp_path: Path) -> None:
    pytest.importorskip("datafusion")
    out = tmp_path / "r.jsonl"
    assert runner.main(["residual/or/4000 rows", "--in-process", "--repeat", "1", "--peers", "DataFusion SHJ",
                        "--out", str(out)]) == 0  # fmt: skip
    (r,) = [json.loads(x) for x in out.read_text().splitlines()][1:]
    assert r["status"] == "cannot"


def test_batches_of_both_sides_come_at_proportional_speed() -> None:
    left, right = numbered(1000, 3, 1), numbered(100, 3, 2)
    order = [side for side, _ in in_turn(left, right, 10)]
    assert order.count("left") == 100
    assert order.count("right") == 10
    assert order[:12].count("right") in (1, 2)
    done = {"left": 0, "right": 0}
    for side, batch in in_turn(left, right, 10):
        done[side] += batch.num_rows
        assert abs(done["left"] / 1000 - done["right"] / 100) <= 0.11


def test_cases_have_names_of_their_own_and_a_profile() -> None:
    assert len({c.name for c in ALL}) == len(ALL)
    for case in ALL:
        assert case.tags, case.name
        assert case.tags <= {"smoke", "quick", "full"}
        assert case.peers is None or set(case.peers) <= set(PEERS)
    assert {c.family for c in select("smoke", [])} >= {c.family for c in select("quick", [])} - {"length"}
    assert [c.name for c in select("quick", ["hot-key/4000 rows"])] == ["hot-key/4000 rows"]
    assert {c.family for c in select("quick", ["window"])} == {"window"}


def test_sql_of_a_case() -> None:
    case = replace(tiny("full"), condition="l.s > r.s OR l.x = r.x")
    left, right = case.make()
    assert case.sql(left.schema, right.schema) == (
        "SELECT COALESCE(l.k, r.k) AS k, l.s AS s, l.v AS v, l.x AS x, r.s AS s_right, r.v AS v_right, r.x AS x_right "
        "FROM l FULL JOIN r ON l.k = r.k AND (l.s > r.s OR l.x = r.x)"
    )


def test_conditions_in_datafusions_words() -> None:
    assert datafusion_sql("l.a div 2 >= r.a") == "CAST(l.a / 2 AS BIGINT) >= r.a"
    assert datafusion_sql("l.a + INTERVAL 1 MONTH <= r.a") == "l.a + INTERVAL '1 MONTH' <= r.a"
    assert datafusion_sql("CAST(l.a AS FLOAT) >= r.a") == "CAST(l.a AS REAL) >= r.a"


def records_of_a_grid() -> list[dict[str, Any]]:
    out = []
    for card in (8, 64, 1024):
        for batch in (128, 512):
            for peer, s in (("ivjoin", 0.5), ("DataFusion SHJ", 3.0)):
                out.append({
                    "kind": "cell", "family": "seed", "case": f"seed/{card} keys/1000000 rows", "peer": peer,
                    "batch": batch, "status": "ok", "seconds": s, "cpu_seconds": s, "rows_in": 2 * 10**6,
                    "rows_expected": 7, "memory_added": 10**6, "peak_memory": 10**8, "bytes_moved": 10**6,
                    "copy_seconds": 0.01,
                    **({"input_cpu_seconds": 1.0} if peer != "ivjoin" else
                       {"peak_state_rows": 5, "peak_state_bytes": 500}),
                })  # fmt: skip
    for case in SCALING:
        if case.family == "window" and case.name.endswith("/1000000 rows"):
            reach = int(re.findall(r"\d+", case.name)[0])
            out.append({**out[0], "family": "window", "case": case.name, "cpu_seconds": 1e-3 * reach**0.5,
                        "seconds": 1.0, "batch": 4096})  # fmt: skip
    return out


@pytest.mark.slow
def test_the_page_shows_ratios_net_of_input_and_fitted_exponents(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    machine = {"cpu": "c", "cores": 2, "memory_gib": 1.0, "system": "s", "versions": {"python": "3"}, "load": 0.0,
               "command": "python -m bench", "started": "now"}  # fmt: skip
    page = report.render(records_of_a_grid(), [machine], tmp_path)
    fitted = "Fitted exponents of the CPU time: ivjoin 0.50. The rows in and out have the exponent 0.00."
    assert f"{fitted} The expected exponent is 0: " in page
    assert "ivjoin takes 2 to 500 ns for each row of input or output." in page
    shown = re.findall(r"\]\((benchmarks-[\w-]+\.svg)\)", page)
    assert all((tmp_path / name).stat().st_size > 1000 for name in shown)
    again = tmp_path / "again"
    again.mkdir()
    assert report.render(records_of_a_grid(), [machine], again) == page
    assert all((again / name).read_bytes() == (tmp_path / name).read_bytes() for name in shown)


def test_page_without_results(tmp_path: Path) -> None:
    assert "no figures yet" in report.render([], [], tmp_path)


def test_figures() -> None:
    assert tables.geometric_mean([1.0, 4.0, 16.0]) == pytest.approx(4.0)
    assert tables.net({"cpu_seconds": 3.0, "input_cpu_seconds": 1.0}) == 2.0
    assert tables.net({"cpu_seconds": 1.0, "input_cpu_seconds": 2.0}) == 0.01
    assert [tables.size(v) for v in (7, 1500, 25e6)] == ["7 B", "1.5 kB", "25 MB"]
    assert Band("s", -1, 2).hi == 2


@pytest.mark.slow
def test_the_tables_of_parallel_joins_are_made(tmp_path: Path) -> None:
    out, page = tmp_path / "routing.jsonl", tmp_path / "parallel.md"
    assert routing.main(["--rows", "2000", "--workers", "4", "16", "--out", str(out), "--page", str(page)]) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert sum(r["kind"] == "routing" for r in records) == 2 * 2 * 2 * 5 + 2 * 2 * 2 * (3 + 2 + 2)
    by_hash, planned = (
        next(r for r in records if (r.get("scheme"), r.get("exponent"), r.get("workers")) == (scheme, 1.5, 16))
        for scheme in ("hash", "auto")
    )
    assert by_hash["over"] > 8 > 1.5 > planned["over"]
    text = page.read_text()
    assert text.count("| 1.5 | auto |") == 2 and text.count("| full |") == 2 * 2 * 3
    assert f"**{planned['over']:.2f}**" in text



@pytest.mark.slow
def test_chosen_views_are_compared_with_named_ones(tmp_path: Path) -> None:
    out, page = tmp_path / "views.jsonl", tmp_path / "views.md"
    few = ["--rows", "600", "--runs", "1", "--out", str(out), "--page", str(page)]
    assert multiway_views.main(few) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()][1:]
    assert sum(r["kind"] == "views" for r in records) == 12
    assert page.read_text().count("|\n") == 12 + 2


def test_pairs_hold_all_where_only_a_third_input_bounds_them() -> None:
    held = multiway_state.over_time("transitive", 1500)["held"]
    assert max(held["multi_join"]) < 1500 < held["pairs"][-1]
    held = multiway_state.over_time("chain", 1500)["held"]
    assert max(held["multi_join"]) < 1500
