"""Aggregates on the command line, in an explanation, and under a memory limit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin
from ivjoin.cli import main

LEFT = pa.table({"k": [1, 1, 2], "t": [1, 5, 9]})
RIGHT = pa.table({"k": [1, 1, 1, 2], "t": [0, 2, 5, 30], "p": [1.0, 2.0, 4.0, 8.0], "q q": [1, 2, 3, 4]})
BAND = "abs(l.t - r.t) <= 1"


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right, out = (tmp_path / f"{n}.parquet" for n in ("left", "right", "out"))
    pq.write_table(LEFT, left)
    pq.write_table(RIGHT, right)
    asked = ["--aggregate", "n=count(*)", "--aggregate", "m = AVG(r.p)", "--aggregate", "s=sum(r.`q q` * 2)"]
    question = [str(left), str(right), "--on", "k", "--condition", BAND, "--how", "left", *asked]
    assert main(["window", *question, "-o", str(out), "-q"]) == 0
    rows = sorted(map(tuple, (r.values() for r in pq.read_table(out).to_pylist())))
    assert rows == [(1, 1, 2, 1.5, 6), (1, 5, 1, 4.0, 6), (2, 9, 0, None, None)]
    capsys.readouterr()
    assert main(["explain", *question]) == 0
    said = capsys.readouterr().out
    assert "mean(r.p)" in said
    assert "over ranges of right rows sorted by r.t; no pairs are made" in said
    question = [x for x in question if x not in ("--how", "left")]
    assert main(["explain", *question]) == 0
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("option, instead", [
    (["--aggregate", "n=count(*)"], "--aggregate does not exist; use the command 'ivjoin window'"),
    (["--pick-by", "t"], "--pick-by does not exist; write --pick 'last by ts'"),
    (["--pick", "last"], "pick is 'last'; expected [first|last] [k] [with ties] by EXPR"),
])  # fmt: skip
def test_removed_options_of_the_command_line(
    option: list[str], instead: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "left.parquet"
    pq.write_table(LEFT, file)
    with suppress(SystemExit):
        assert main(["join", str(file), str(file), "--on", "k", *option]) == 2
    assert instead in capsys.readouterr().err


@pytest.mark.parametrize("condition, words", [
    (BAND + " AND l.k <> r.p", "the pairs of each left row are evaluated"),
    ("l.t BETWEEN r.t AND r.p", "pairs decide other bands"),
    (None, "sorted by their key"),
])  # fmt: skip
def test_an_explanation(condition: str | None, words: str) -> None:
    said = ivjoin.explain(LEFT.schema, RIGHT.schema, condition=condition, on="k", aggregate={"n": ("*", "count")})
    assert "  count(*)" in said
    assert words in said


@pytest.mark.slow
def test_a_memory_limit() -> None:
    op = ivjoin.SymmetricHashJoin(
        LEFT.schema, RIGHT.schema, on="k", condition=BAND, aggregate={"n": ("*", "count")}, memory_limit=100_000
    )
    batch = RIGHT.to_batches()[0]
    taken, refused = 0, ""
    while not refused:
        try:
            assert list(op.push("right", batch)) == []
            taken += 4
        except ivjoin.MemoryLimitError as e:
            refused = str(e)
    assert "a greater memory_limit" in refused
    assert op.metrics.right_rows_in == op.metrics.state_rows == taken
    assert 50_000 < op.metrics.peak_state_bytes <= 100_000
    assert sum(b.num_rows for b in op.finish("right")) == 0
    got = [r for b in (*op.push("left", LEFT.to_batches()[0].slice(0, 0)), *op.finish()) for r in b.to_pylist()]
    assert got == []
    with pytest.raises(ivjoin.UnsupportedError, match="cannot be used with aggregates"):
        ivjoin.window_join(
            LEFT, RIGHT, on="k", how="inner", aggregate={"n": ("*", "count")}, memory_limit="1MB", when_full="shed"
        )


def test_output_bounds_are_refused() -> None:
    op = ivjoin.SymmetricHashJoin(LEFT.schema, RIGHT.schema, on="k", aggregate={"n": ("*", "count")})
    with pytest.raises(ivjoin.ProtocolError, match="aggregates"):
        op.output_bounds()


@pytest.mark.slow
@pytest.mark.parametrize("turns", [("left",), ("left", "right")])
def test_single_rows_are_stored_together(turns: tuple[str, ...]) -> None:
    """Each in arrays of its own would take several times its bytes, and every push would look at all of these."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("p", pa.float64())])
    op = ivjoin.SymmetricHashJoin(
        schema, schema, on="k", condition="r.t >= l.t" if turns == ("left",) else "r.t <= l.t", how="left",
        left_order="t", right_order="t", aggregate={"s": ("p", "sum")},
    )
    rows, out = 2000, 0
    before = pa.total_allocated_bytes()
    for i in range(rows):
        for side in turns:
            row = pa.record_batch([[i % 3], [i], [1.0]], schema=schema)
            out += sum(b.num_rows for b in op.push(side, row))
    assert op.metrics.state_rows == rows * len(turns) - out >= rows
    # 24 bytes a row, of which no more than as much again is of arrays that were put together
    assert pa.total_allocated_bytes() - before < 2 * 24 * rows
    parts = [*op._engine.left.chunks, *op._engine.right.each()]
    assert sum(1 if isinstance(c, pa.Array) else c.num_chunks for p in parts for c in p.base) < 100
