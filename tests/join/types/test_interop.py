"""Objects of other libraries as inputs, a JoinStream as output."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ivjoin import IvjoinError, LateRowError, ProtocolError, band_join

LEFT = pa.table({"k": ["x", "y", "x", None], "a": [1, 2, 3, 4], "v": [1.5, None, 2.5, 3.5]})
RIGHT = pa.table({"k": ["x", "x", "z"], "a": [2, 4, 4], "w": [True, False, None]})
CALL: dict[str, Any] = {"on": "k", "condition": "l.a <= r.a", "how": "left", "left_order": "a", "right_order": "a"}
WANT = sorted(
    [
        ("x", 1, 1.5, 2, True), ("x", 1, 1.5, 4, False), ("x", 3, 2.5, 4, False), ("y", 2, None, None, None),
        (None, 4, 3.5, None, None),
    ],
    key=str,
)


def same(rows: list[dict[str, Any]]) -> None:
    assert list(rows[0]) == ["k", "a", "v", "a_right", "w"]
    assert sorted((tuple(r.values()) for r in rows), key=str) == WANT


def _polars(t: pa.Table) -> Any:
    import polars

    return polars.from_arrow(t)


def _duckdb(t: pa.Table) -> Any:
    import duckdb

    db = duckdb.connect(":memory:")
    db.register("t", t)
    return db.sql("SELECT * FROM t")


class Capsule:
    """An object that knows the C stream interface and nothing else."""

    def __init__(self, t: pa.Table) -> None:
        self._t = t

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._t.__arrow_c_stream__(requested_schema)


INPUTS = {
    "table": lambda t: t,
    "reader": lambda t: t.to_reader(max_chunksize=1),
    "batch": lambda t: t.combine_chunks().to_batches()[0],
    "list of batches": lambda t: t.to_batches(max_chunksize=2),
    "generator of batches": lambda t: iter(t.to_batches(max_chunksize=2)),
    "polars": _polars, "duckdb": _duckdb, "c stream": Capsule,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("left", INPUTS)
@pytest.mark.parametrize("right", ["table", "polars", "duckdb", "generator of batches"])
def test_inputs(left: str, right: str) -> None:
    same(band_join(INPUTS[left](LEFT), INPUTS[right](RIGHT), **CALL).read_all().to_pylist())


def stream() -> Any:
    return band_join(LEFT, RIGHT, **CALL)


def test_a_stream_tells_its_schema_before_it_is_read() -> None:
    s = stream()
    assert isinstance(s.schema, pa.Schema)
    assert s.schema.names == ["k", "a", "v", "a_right", "w"]
    batches = list(s)
    assert all(isinstance(b, pa.RecordBatch) and b.schema == s.schema for b in batches)
    assert s.metrics.rows_out == 5
    assert s.metrics.state_rows == 0


def test_pyarrow_takes_a_stream() -> None:
    same(pa.table(stream()).to_pylist())
    same(pa.RecordBatchReader.from_stream(stream()).read_all().to_pylist())


def test_polars_takes_a_stream() -> None:
    import polars

    taken = polars.from_arrow(stream())  # a Series of structs, or a DataFrame, by the version of polars
    same((taken.struct.unnest() if isinstance(taken, polars.Series) else taken).to_dicts())
    same(polars.DataFrame(stream()).to_dicts())


def test_duckdb_takes_a_stream() -> None:
    import duckdb

    db = duckdb.connect(":memory:")
    joined = stream()
    relation = db.from_arrow(joined)
    same([dict(zip(relation.columns, row)) for row in relation.fetchall()])
    joined = stream()
    assert db.sql("SELECT count(*), count(w) FROM joined").fetchall() == [(5, 3)]


def test_a_stream_feeds_another_join() -> None:
    again = band_join(stream(), RIGHT, on="k", how="left_semi").read_all()
    assert sorted(again.column("a").to_pylist()) == [1, 1, 3]


TAKING: dict[str, Any] = {
    "iterate": list, "read_all": lambda s: s.read_all(), "to_reader": lambda s: s.to_reader().read_all(),
    "c stream": pa.table,
}


@pytest.mark.parametrize("again", TAKING)
@pytest.mark.parametrize("first", TAKING)
def test_output_is_read_once(first: str, again: str) -> None:
    s = stream()
    assert sum(b.num_rows for b in (TAKING[first](s) if first == "iterate" else TAKING[first](s).to_batches())) == 5
    with pytest.raises(ProtocolError, match="be read only once"):
        TAKING[again](s)
    if first in ("iterate", "read_all"):
        assert next(s, None) is None, "the end stays the end for whoever holds the iterator"


def test_output_without_rows_is_read_once_too() -> None:
    s = band_join(LEFT.slice(0, 0), RIGHT, on="k")
    assert s.read_all().num_rows == 0
    with pytest.raises(ProtocolError, match="be read only once"):
        s.read_all()


def test_a_loop_that_was_left_goes_on() -> None:
    s = band_join(LEFT, RIGHT, **CALL, batch_size=1)
    assert iter(s) is iter(s), "asking twice before anything was taken loses nothing"
    got = []
    for b in s:
        got += b.to_pylist()
        break
    for b in s:
        got += b.to_pylist()
    same(got)
    with pytest.raises(ProtocolError, match="be read only once"):
        iter(s)


def test_an_arrow_stream_is_the_whole_output() -> None:
    s = band_join(LEFT, RIGHT, **CALL, batch_size=1)
    first = next(s).to_pylist()
    with pytest.raises(ProtocolError, match="to_reader"):
        s.__arrow_c_stream__()
    same(first + s.to_reader().read_all().to_pylist())


def test_a_reader_that_has_begun_keeps_the_output() -> None:
    s = band_join(LEFT, RIGHT, **CALL, batch_size=1)
    reader = s.to_reader()
    first = reader.read_next_batch().to_pylist()
    for take in (iter, next, lambda s: s.read_all(), lambda s: s.to_reader()):
        with pytest.raises(ProtocolError, match="another reader"):
            take(s)
    same(first + reader.read_all().to_pylist())


def test_a_reader_that_was_overtaken_gives_no_part() -> None:
    s = stream()
    early, late = s.to_reader(), s.to_reader()
    with pytest.raises(ProtocolError, match="another reader"):
        early.read_all()
    same(late.read_all().to_pylist())


def test_after_an_error_there_is_nothing_more() -> None:
    left = pa.table({"a": [3, 1]})
    s = band_join(left, left, condition="l.a = r.a", left_order="a")
    with pytest.raises(LateRowError):
        s.read_all()
    with pytest.raises(ProtocolError, match=r"stopped with an error.*late row"):
        s.read_all()


@pytest.mark.parametrize("taken", [0, 1])
def test_a_closed_stream_is_over(taken: int) -> None:
    s = band_join(LEFT, RIGHT, **CALL, batch_size=1)
    for _ in range(taken):
        next(s)
    s.close()
    with pytest.raises(ProtocolError, match="closed"):
        s.read_all()
    assert next(s, None) is None


def test_a_stream_read_by_two_at_a_time() -> None:
    said = []

    def batches() -> Any:
        yield from LEFT.to_batches()
        with pytest.raises(ProtocolError, match="or by a call further up in this one") as e:
            next(s)
        said.append(e)

    s = band_join(batches(), RIGHT, **CALL)
    same(s.read_all().to_pylist())
    assert said


@pytest.mark.parametrize("make", [
    pytest.param(lambda: stream(), id="a join"),
    pytest.param(lambda: LEFT.to_reader(), id="a reader"),
    pytest.param(lambda: iter(LEFT.to_batches()), id="an iterator"),
])  # fmt: skip
def test_one_stream_cannot_be_both_inputs(make: Any) -> None:
    source = make()
    with pytest.raises(ProtocolError, match="left and right are the same"):
        band_join(source, source, on="k")
    assert band_join(LEFT, LEFT, on="a").read_all().num_rows == 4


def test_relations_of_one_duckdb_connection() -> None:
    import duckdb

    db = duckdb.connect(":memory:")
    db.register("l", LEFT)
    db.register("r", RIGHT)
    same(band_join(db.sql("SELECT * FROM l"), db.sql("SELECT * FROM r"), **CALL).read_all().to_pylist())
    twice = db.sql("SELECT k, a FROM l")
    assert band_join(twice, twice, on="a").read_all().num_rows == 4
    half_read = band_join(db.sql("SELECT * FROM range(100000)"), RIGHT, on=[("range", "a")])
    try:
        rest = band_join(LEFT, db.sql("SELECT * FROM r"), **CALL)
    except ProtocolError as e:
        assert "to_arrow_table()" in str(e)  # noqa: PT017
    else:
        same(rest.read_all().to_pylist())  # a DuckDB that keeps several results of a connection open
    assert half_read.read_all().num_rows == 3


def test_an_error_reaches_the_consumer() -> None:
    left = pa.table({"a": [3, 1]})
    reader = pa.RecordBatchReader.from_stream(band_join(left, left, condition="l.a = r.a", left_order="a"))
    with pytest.raises(Exception, match="late"):
        reader.read_all()


def test_empty_inputs_of_every_sort() -> None:
    for make in INPUTS.values():
        if make in (INPUTS["batch"], INPUTS["list of batches"], INPUTS["generator of batches"]):
            continue  # no batch, no schema
        assert (
            band_join(make(LEFT.slice(0, 0)), make(RIGHT.slice(0, 0)), **{**CALL, "how": "full"}).read_all().num_rows
            == 0
        )
        same(band_join(make(LEFT), make(RIGHT), **CALL).read_all().to_pylist())


def test_an_iterable_without_batches_is_refused_or_empty() -> None:
    with pytest.raises(IvjoinError, match=r"left.*(schema|batch)"):
        band_join(iter([]), RIGHT, **CALL)


def test_reading_is_lazy_and_reads_ahead_at_most_one_batch_a_side() -> None:
    pulled = {"left": 0, "right": 0}

    def source(side: str, t: pa.Table) -> Any:
        for b in t.to_batches(max_chunksize=10):
            pulled[side] += 1
            yield b

    t = pa.table({"a": range(1000)})
    s = band_join(source("left", t), source("right", t), condition="l.a = r.a", left_order="a", right_order="a")
    assert max(pulled.values()) <= 1
    out = iter(s)
    next(out)
    assert max(pulled.values()) <= 3, f"one batch of each makes output, one may be read ahead: {pulled}"
    assert sum(b.num_rows for b in out) + 10 == 1000
    assert s.metrics.peak_state_rows <= 40
