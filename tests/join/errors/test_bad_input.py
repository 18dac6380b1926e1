"""Bad input: one clear error, an IvjoinError of the right class that names the cause and the fix."""

from __future__ import annotations

import contextlib
import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin import SymmetricHashJoin

LEFT = pa.schema(
    {"id": pa.int64(), "k": pa.string(), "ts": pa.timestamp("us"), "price": pa.float64(), "tags": pa.list_(pa.string())}
)
RIGHT = pa.schema(
    {"id": pa.int64(), "k": pa.string(), "ts": pa.timestamp("us"), "volume": pa.int32(), "big": pa.decimal256(50, 2)}
)


def bad(id_: str, error: str, *parts: str, **options: Any) -> Any:
    return pytest.param(error, parts, options, id=id_)


CASES = [
    bad("unknown on", "ColumnError", "tS", "left", "ts", on="tS"),
    bad("unknown on lists columns", "ColumnError", "zzz", "id", "k", "price", on="zzz"),
    bad("on of the right alone", "ColumnError", "volume", "left", on="volume"),
    bad("on pair with an unknown right name", "ColumnError", "'kk'", "right", "'k'", on=[("k", "kk")]),
    bad("on of no known form", "ColumnError", "on", "pair", on=[("k", "k", "k")]),
    bad("on by number", "ColumnError", "on", on=[3]),
    bad("on by one number", "ColumnError", "on is 3", "list", on=3),
    bad("on as a mapping", "ColumnError", "[('k', 'id')]", on={"k": "id"}),
    bad("on as a set", "ColumnError", "set", "list of names", on={"k", "id"}),
    bad("keys of unlike types", "ConditionError", "left.ts", "right.volume", on=[("ts", "volume")]),
    bad("nested key", "IvjoinError", "tags", "list", on=[("tags", "k")]),
    bad("unknown column", "ColumnError", "prise", "price", condition="l.prise > 3"),
    bad("unknown column of the right", "ColumnError", "volum", "volume", condition="l.price > r.volum"),
    bad("wrong case", "ColumnError", "TS", "'ts'", condition="l.TS > r.ts"),
    bad("ambiguous column", "ColumnError", "ts", "l.ts", "r.ts", condition="ts > r.ts"),
    bad("unknown qualifier", "IvjoinError", "q", condition="q.ts > r.ts"),
    bad("does not parse", "ConditionError", "line 1", condition="l.ts > ) r.ts"),
    bad("does not parse, second line", "ConditionError", "line 2", condition="l.ts > r.ts\n AND AND l.id = 3"),
    bad("unclosed bracket", "ConditionError", "(", condition="(l.ts > r.ts"),
    bad("a whole query", "ConditionError", "SELECT", condition="SELECT 1"),
    bad("an empty text", "ConditionError", condition="  "),
    bad("not boolean", "ConditionError", "int", condition="l.id + r.id"),
    bad("not a condition", "ConditionError", "int", "SQL", condition=42),
    bad("an aggregate", "ConditionError", "sum", condition="sum(l.id) > 3"),
    bad("a subquery", "ConditionError", condition="l.id IN (SELECT 1)"),
    bad("unknown function", "UnsupportedError", "frobnicate", condition="frobnicate(l.id) > 3"),
    bad("not deterministic", "UnsupportedError", "rand", condition="rand() > l.price"),
    bad("unlike types", "ConditionError", "timestamp", "int", condition="l.ts > r.volume"),
    bad("unlike types under plus", "ConditionError", "timestamp", condition="l.ts + r.ts > l.ts"),
    bad("nested in arithmetic", "ConditionError", "list", condition="l.tags + 1 > 2"),
    bad("decimal256 in arithmetic", "ConditionError", "big", "decimal256", condition="r.big + 1 > 3"),
    bad("bool operator on numbers", "ConditionError", "int", condition="l.id AND r.id = 3"),
    bad("wrong how", "IvjoinError", "lefft", "left", how="lefft"),
    bad("how of no kind", "IvjoinError", "inner", "right_anti", how="sideways"),
    bad("how is None", "IvjoinError", "None", how=None),
    bad("order on a missing column", "ColumnError", "tss", "ts", left_order="tss"),
    bad("order that does not parse", "ConditionError", "order 'ts +' of the left side", left_order="ts +"),
    bad("order by no function", "UnsupportedError", "order 'frobnicate(ts)' of the left", left_order="frobnicate(ts)"),
    bad("order of a number", "ConditionError", "order 3 of the left side", "expected SQL text", left_order=3),
    bad("order with a direction", "ConditionError", "Order('ts', descending=True)", left_order="ts DESC"),
    bad("order of the other side's name", "OrderError", "'r.ts' of the left side reads r.ts", left_order="r.ts"),
    bad("order over the other side", "IvjoinError", "volume", left_order="volume"),
    bad("order over text", "OrderError", "k", "string", left_order="k"),
    bad("order over a list", "IvjoinError", "tags", left_order="tags"),
    bad("bounds that are no mapping", "OrderError", "left_bounds", left_bounds=[("id", 0, 3)]),
    bad("bounds of one value", "OrderError", "id", "pair", left_bounds={"id": 3}),
    bad("bounds the wrong way round", "OrderError", "id", left_bounds={"id": (5, 3)}),
    bad("bounds of an unknown column", "ColumnError", "idd", "id", left_bounds={"idd": (0, 3)}),
    bad("bounds of another type", "OrderError", "ts", "timestamp", left_bounds={"ts": (0, 3)}),
    bad("bounds of text", "OrderError", "k", left_bounds={"k": ("a", "b")}),
    bad("a bound outside of the type", "OrderError", "int32", "2147483647", right_bounds={"volume": (0, 2**31)}),
    bad("a bound without limit", "OrderError", "volume", "None", right_bounds={"volume": (0, float("inf"))}),
    bad("NaN as a bound", "OrderError", "price", "nan", left_bounds={"price": (0, float("nan"))}),
    bad("a datetime as a bound of a number", "OrderError", "id", "int64", left_bounds={"id": (dt.datetime.max, None)}),
    bad("a bool as a bound of a number", "OrderError", "id", "int64", left_bounds={"id": (True, None)}),
    bad("suffix that is no text", "IvjoinError", "suffix is 3", "text", suffix=3),
    bad("suffix that collides too", "SchemaError", "id", "suffix", suffix=""),
    bad("wrong on_late", "IvjoinError", "ignore", "raise", "drop", "join", on_late="ignore"),
    bad("batch_size zero", "IvjoinError", "batch_size", "0", batch_size=0),
    bad("batch_size a bool", "IvjoinError", "batch_size is True", batch_size=True),
    bad("batch_size beyond Arrow's", "IvjoinError", "batch_size", "2147483647", batch_size=2**31),
    bad("no time zone", "ConditionError", "time zone ''", "UTC", timezone=""),
    bad("an option of no name", "OptionError", "no option 'left_ordr'", "did you mean 'left_order'", left_ordr="ts"),
    bad("batch_size a fraction", "IvjoinError", "batch_size", batch_size=2.5),
    bad(
        "unknown time zone", "IvjoinError", "Mars/Olympus", timezone="Mars/Olympus",
        condition="l.ts + INTERVAL 1 DAY > r.ts",
    ),
]


@pytest.mark.parametrize(("error", "parts", "options"), CASES)
def test_refused_at_the_call(error: str, parts: tuple[str, ...], options: dict[str, Any]) -> None:
    with pytest.raises(getattr(ivjoin, error)) as e:
        ivjoin.SymmetricHashJoin(LEFT, RIGHT, **options)
    text = str(e.value)
    assert isinstance(e.value, ivjoin.IvjoinError)
    for part in parts:
        assert part.lower() in text.lower(), f"{part!r} is not in: {text}"
    assert len(text) > 20
    assert "Traceback" not in text
    # The same from the pull interface, before a row is read.
    with pytest.raises(getattr(ivjoin, error)):
        ivjoin.band_join(LEFT.empty_table(), RIGHT.empty_table(), allow_cross=True, **options)


def test_the_place_of_a_mistake_is_marked() -> None:
    with pytest.raises(ivjoin.ConditionError) as e:
        ivjoin.SymmetricHashJoin(LEFT, RIGHT, condition="l.id = r.id AND l.price >")
    assert "col" in str(e.value)
    assert "l.price" in str(e.value)


def test_type_errors_name_the_node_and_both_types() -> None:
    with pytest.raises(ivjoin.ConditionError) as e:
        ivjoin.SymmetricHashJoin(LEFT, RIGHT, condition="l.id = r.id AND l.ts > r.volume")
    for part in ("l.ts", "timestamp[us]", "int32"):
        assert part in str(e.value)


@pytest.mark.parametrize("make", [
    pytest.param(lambda iv: iv.Order("ts", nulls="middle"), id="nulls"),
    pytest.param(lambda iv: iv.Order("ts", slack=-1), id="negative slack"),
    pytest.param(lambda iv: iv.Order("ts", slack=dt.timedelta(seconds=-1)), id="negative timedelta"),
    pytest.param(lambda iv: iv.Order("ts", slack=float("nan")), id="slack NaN"),
    pytest.param(lambda iv: iv.Order("ts", slack="10"), id="slack text"),
    pytest.param(lambda iv: iv.Order("ts", slack=True), id="slack bool"),
    pytest.param(lambda iv: iv.Order("ts", slack=Decimal("sNaN")), id="slack signalling NaN"),
    pytest.param(lambda iv: iv.Order("ts", slack=Decimal("1e999999999")), id="slack of too many digits"),
    pytest.param(lambda iv: iv.Order("ts", descending="no"), id="descending text"),
    pytest.param(lambda iv: iv.Order("ts", descending=0), id="descending number"),
])  # fmt: skip
def test_orders_that_say_nothing_sound(make: Any) -> None:
    with pytest.raises(ivjoin.OrderError, match="nulls is|slack is|descending is"):
        make(ivjoin)


@pytest.mark.parametrize(("order", "part"), [
    pytest.param({"expr": "ts", "slack": 3}, "timedelta", id="number for a timestamp"),
    pytest.param({"expr": "id", "slack": dt.timedelta(1)}, "number", id="timedelta for an int"),
])  # fmt: skip
def test_slack_in_the_wrong_units(order: dict[str, Any], part: str) -> None:
    with pytest.raises(ivjoin.OrderError, match=part):
        ivjoin.SymmetricHashJoin(LEFT, RIGHT, left_order=ivjoin.Order(**order))


S = pa.schema({"k": pa.int64(), "a": pa.int32()})


def op(**options: Any) -> Any:
    return SymmetricHashJoin(S, S, **{"on": "k", "how": "full", **options})


@pytest.mark.parametrize(("batch", "parts"), [
    pytest.param(pa.record_batch({"k": [1]}), ("left", "a"), id="a column missing"),
    pytest.param(
        pa.record_batch({"k": [1], "a": pa.array([1], pa.int64())}), ("a", "int64", "int32"), id="another type"
    ),
    pytest.param(pa.record_batch({"k": [1], "b": pa.array([1], pa.int32())}), ("b", "a"), id="another name"),
    pytest.param(pa.record_batch({"a": pa.array([1], pa.int32()), "k": [1]}), ("k", "a"), id="another sequence"),
    pytest.param({"k": [1], "a": [1]}, ("RecordBatch", "dict"), id="no batch"),
])  # fmt: skip
def test_batches_of_another_schema(batch: Any, parts: tuple[str, ...]) -> None:
    o = op()
    with pytest.raises(ivjoin.SchemaError) as e:
        list(o.push("left", batch))
    for part in parts:
        assert part in str(e.value)
    # The operator goes on.
    assert list(o.push("left", pa.record_batch({"k": [1], "a": pa.array([1], pa.int32())}))) == []
    assert o.metrics.left_rows_in == 1


def test_schemas_that_are_none() -> None:
    with pytest.raises(ivjoin.SchemaError, match=r"left.*(dict|Schema)"):
        ivjoin.SymmetricHashJoin({"a": "int64"}, S)
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(ivjoin.SchemaError, match=r"right.*'a'"):
        ivjoin.SymmetricHashJoin(S, twice)


@pytest.mark.parametrize("thing", [42, "table", None, [1, 2]], ids=str)
def test_inputs_without_arrow(thing: Any) -> None:
    with pytest.raises((ivjoin.IvjoinError, TypeError)) as e:
        ivjoin.band_join(thing, S.empty_table(), on="k").read_all()
    assert "left" in str(e.value)


def test_an_iterable_whose_later_batch_differs() -> None:
    def batches() -> Any:
        yield pa.record_batch({"k": [1], "a": pa.array([1], pa.int32())})
        yield pa.record_batch({"k": [2], "b": pa.array([1], pa.int32())})

    with pytest.raises(ivjoin.SchemaError, match="b"):
        ivjoin.band_join(batches(), S.empty_table(), on="k", how="left").read_all()


def test_an_error_of_the_source_passes_through() -> None:
    def batches() -> Any:
        yield pa.record_batch({"k": [1], "a": pa.array([1], pa.int32())})
        raise RuntimeError("the disk is on fire")

    with pytest.raises(RuntimeError, match="on fire"):
        ivjoin.band_join(batches(), S.empty_table(), on="k", how="left").read_all()


def one() -> pa.RecordBatch:
    return pa.record_batch({"k": [1], "a": pa.array([1], pa.int32())})


@pytest.mark.parametrize("side", ["left", "right"])
def test_push_after_finish(side: str) -> None:
    o = op()
    list(o.push(side, one()))
    list(o.finish(side))
    with pytest.raises(ivjoin.ProtocolError, match=rf"finish.*{side}|{side}.*finish"):
        o.push(side, one())
    assert len(list(o.push("right" if side == "left" else "left", one()))) >= 1
    list(o.finish())
    for s in ("left", "right"):
        with pytest.raises(ivjoin.ProtocolError):
            o.push(s, one())


def test_finish_twice_gives_nothing_more() -> None:
    o = op()
    list(o.push("left", one()))
    assert sum(b.num_rows for b in o.finish("right")) == 1
    assert list(o.finish("right")) == []
    assert list(o.finish()) == []
    assert list(o.finish()) == []


def test_side_of_no_name() -> None:
    for call in (lambda: op().push("up", one()), lambda: op().finish("up"), lambda: op().advance("up", {"a": 1})):
        with pytest.raises(ivjoin.ProtocolError, match=r"up.*left.*right"):
            call()


@pytest.mark.nojit
def test_output_must_be_drained_first() -> None:
    o = op(batch_size=1)
    list(o.push("left", pa.record_batch({"k": [1, 1, 1], "a": pa.array([1, 2, 3], pa.int32())})))
    out = o.push("right", one())
    assert next(out).num_rows == 1
    for call in (
        lambda: o.push("left", one()), lambda: o.finish(), lambda: o.advance("left", {"a": 1}), lambda: o.snapshot(),
    ):
        with pytest.raises(ivjoin.ProtocolError, match="drain"):
            call()
    assert sum(b.num_rows for b in out) == 2
    assert [b.num_rows for b in o.push("left", one())] == [1]


def test_the_batch_is_taken_at_the_call() -> None:
    """An iterator that is not touched still counts as output to drain; nothing is lost by waiting."""
    o = op(how="inner")
    list(o.push("left", one()))
    out = o.push("right", one())
    assert o.metrics.right_rows_in == 1
    assert sum(b.num_rows for b in out) == 1


@pytest.mark.parametrize("values", [{}, None, {"zz": 1}, {"a": "soon"}, {"k": None}], ids=str)
def test_watermarks_that_say_nothing(values: Any) -> None:
    with pytest.raises(ivjoin.IvjoinError):
        list(op().advance("left", values))


@pytest.mark.parametrize(
    "value", [300, -1, 256, 255.5, float("inf"), float("nan"), True, dt.datetime(2024, 1, 1)], ids=str
)
def test_a_watermark_outside_of_the_type(value: Any) -> None:
    s = pa.schema({"a": pa.uint8()})
    o = ivjoin.SymmetricHashJoin(s, s, condition="l.a = r.a", how="left")
    with pytest.raises(ivjoin.OrderError, match="the watermark of a is") as told:
        o.advance("left", {"a": value})
    assert "None" not in str(told.value), "None is refused, too"
    rows = pa.record_batch({"a": pa.array([0, 255], pa.uint8())})
    list(o.advance("left", {"a": 0}))
    list(o.push("left", rows))
    assert sum(b.num_rows for b in o.push("right", rows)) == 2, "a refused watermark has promised nothing"


def test_unknown_option_error_names_the_function() -> None:
    calls = {
        "band_join": lambda **o: ivjoin.band_join(S.empty_table(), S.empty_table(), **o),
        "SymmetricHashJoin": lambda **o: ivjoin.SymmetricHashJoin(S, S, **o),
        "explain": lambda **o: ivjoin.explain(S, S, condition="l.a = r.a", **o),
    }
    for name, call in calls.items():
        near = rf"^{name}\(\) has no option 'left_ordr'; did you mean 'left_order'\?"
        with pytest.raises(ivjoin.OptionError, match=near):
            call(left_ordr="a")
        has = rf"^{name}\(\) has no option 'zzz'; it has ([a-z_]+, )*batch_size, "
        with pytest.raises(TypeError, match=has):
            call(zzz=3)


def test_a_watermark_of_text() -> None:
    s = pa.schema({"k": pa.string()})
    with pytest.raises(ivjoin.OrderError, match="values of type string cannot be ordered"):
        ivjoin.SymmetricHashJoin(s, s, on="k").advance("left", {"k": "x"})


def test_advance_after_finish_is_harmless_or_refused() -> None:
    o = op()
    list(o.push("right", one()))
    list(o.finish("left"))
    with contextlib.suppress(ivjoin.ProtocolError):
        assert list(o.advance("left", {"a": 3})) == []
    assert o.metrics.right_rows_retired == 1


# Snapshots


def test_a_snapshot_of_another_version_is_refused_by_name() -> None:
    o = op()
    list(o.push("left", one()))
    blob = o.snapshot()
    assert isinstance(blob, bytes)
    for broken in (
        b"", b"hello", blob[: len(blob) // 2], blob[:-1], b"PAR1" + blob, blob[:20] + b"\xff" * 8 + blob[28:],
    ):
        with pytest.raises(ivjoin.SnapshotError) as e:
            ivjoin.SymmetricHashJoin.restore(broken)
        assert len(str(e.value)) > 20
    with pytest.raises((ivjoin.SnapshotError, TypeError)):
        ivjoin.SymmetricHashJoin.restore("text")


def test_a_restored_operator_is_independent() -> None:
    o = op()
    list(o.push("left", one()))
    other = ivjoin.SymmetricHashJoin.restore(o.snapshot())
    assert sum(b.num_rows for b in other.push("right", one())) == 1
    assert o.metrics.right_rows_in == 0
    assert other.metrics.left_rows_in == 1
    assert sum(b.num_rows for b in o.finish()) == 1


def test_explain_refuses_what_the_join_refuses() -> None:
    with pytest.raises(ivjoin.ColumnError, match="price"):
        ivjoin.explain(LEFT, RIGHT, condition="l.prise > 3")
    with pytest.raises(ivjoin.ConditionError):
        ivjoin.explain(LEFT, RIGHT, condition="l.ts >")


def test_explain_names_what_prunes_and_why_not() -> None:
    text = str(
        ivjoin.explain(
            LEFT, RIGHT, left_order="ts",
            condition="l.ts >= r.ts - INTERVAL 10 SECONDS AND l.k = r.k AND l.price <> r.volume",
        )
    )
    for part in ("key", "band", "residual", "ts", "right"):
        assert part in text.lower()
    # The right never prunes the left: nothing is known of the right's future rows.
    assert "order" in text.lower() or "declare" in text.lower()
