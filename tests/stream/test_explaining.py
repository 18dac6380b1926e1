"""What `explain` shows of inputs that are sorted: the terms it uses and how the plan is drawn."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivjoin

SCHEMA = pa.schema({
    "k": pa.int64(), "price": pa.float64(), "w": pa.float64(), "ts": pa.timestamp("us"), "name": pa.string(),
})  # fmt: skip
N = 5000
CONDITIONS = [
    "abs(l.price - r.price) < 0.5",
    "abs(l.price - r.price) < r.w",
    "l.price / r.price < 1.01 AND r.price / l.price < 1.01",
    "l.ts BETWEEN r.ts - INTERVAL 1 HOUR AND r.ts",
    "l.k + r.k <= 0 OR l.name LIKE 'a%'",
    "CASE WHEN l.k > 3 THEN l.ts ELSE r.ts END >= TIMESTAMP '2026-01-01 00:00:00'",
    "l.price > -1.5 AND abs(l.price - r.price) < 3 AND l.name <> r.name",
]


def table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ts = rng.integers(1_790_000_000, 1_795_000_000, N) * 1_000_000
    return pa.table(
        [rng.integers(0, 9, N), rng.random(N) * 1000, rng.random(N), ts, ["x"] * N],
        names=SCHEMA.names,
    ).cast(SCHEMA)


@pytest.mark.parametrize("given", ["schema", "table"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_it_speaks_the_language_of_the_condition(condition: str, given: str) -> None:
    inputs = [SCHEMA, SCHEMA] if given == "schema" else [table(1), table(2)]
    text = ivjoin.explain(*inputs, condition=condition)
    for word in ("CAST(", "Infinity", "next_up", "next_down", "isnan(next", "+ -", "2024-", "an order of"):
        assert word not in text, text
    assert not re.search(r"\d[Dd]\b(?!')", text), text


def test_what_to_declare_is_a_column() -> None:
    text = ivjoin.explain(SCHEMA, SCHEMA, condition="abs(l.price - r.price) < 0.5")
    assert (
        "l.price <= r.price + 0.5 and l.price >= r.price - 0.5 prune nothing here: nothing is known of future r.price; "
        "declare right_order='price' or right_bounds"
    ) in text
    text = ivjoin.explain(SCHEMA, SCHEMA, condition="abs(l.price - r.price) < r.w")
    assert "declare right_order and right_bounds of 'w' and 'price'" in text


def test_tables_are_to_be_sorted() -> None:
    left, right = table(1), table(2)
    text = ivjoin.explain(left, right, condition="abs(l.price - r.price) < 0.5")
    assert text.splitlines()[1] == "  neither side is ordered: both will be sorted by l.price and r.price, about 0.1 MB"
    assert "left rows are stored while l.price >=" in text
    text = ivjoin.explain(
        left.sort_by("ts"), right, condition="l.ts BETWEEN r.ts - INTERVAL 1 HOUR AND r.ts", left_order="ts"
    )
    assert "the right side is not ordered: it will be sorted by r.ts, about 0.1 MB" in text
    assert re.search(r"left: l.ts >= 2026-\d\d-\d\d", text)
    text = ivjoin.explain(left, right, condition="l.price < r.price")
    assert "sorting would not reduce the state: the shorter side is stored as a whole" in text
    text = ivjoin.explain(left.slice(0, 9), right.slice(0, 9), condition="abs(l.price - r.price) < 0.5")
    assert "there are few rows, so they are not sorted" in text


def test_explain_agrees_with_the_run() -> None:
    left, right = table(1), table(2)
    for condition in CONDITIONS[:4]:
        said = re.search(r"both will be sorted by (.*), about", ivjoin.explain(left, right, condition=condition))
        stream = ivjoin.band_join(left, right, condition=condition)
        next(stream)
        done = re.search(r"both were sorted, by (.*), with", stream.sorting)
        assert said and done
        assert said[1] == done[1]


def test_files_are_not_read_for_it(tmp_path: Path) -> None:
    for side in (1, 2):
        pq.write_table(table(side), tmp_path / f"{side}.parquet")
    places = [str(tmp_path / f"{side}.parquet") for side in (1, 2)]
    def refused(*_: Any, **__: Any) -> Iterator[pa.RecordBatch]:
        raise AssertionError("read")
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq.ParquetFile, "iter_batches", refused)
        text = ivjoin.explain(*places, condition="abs(l.price - r.price) < 0.5 AND l.ts <= r.ts AND l.ts >= r.ts")
    assert "both will be sorted by l.price and r.price or l.ts and r.ts, which a sample decides, about 0.6 MB" in text


def test_streams_are_not_sorted_and_not_read() -> None:
    reader = table(1).to_reader()
    text = ivjoin.explain(reader, table(2), condition="abs(l.price - r.price) < 0.5")
    assert "every row of the left stream stays in state until the other input ends" in text
    assert reader.read_all().num_rows == N

    def batches() -> Iterator[pa.RecordBatch]:
        yield from table(1).to_batches()

    with pytest.raises(ivjoin.SchemaError, match="generator, which explain would have to read"):
        ivjoin.explain(batches(), SCHEMA, condition="l.k = r.k")


@pytest.mark.parametrize("given", [3, None, "no.parquet", [1]])
def test_what_is_neither_schema_nor_input(given: Any) -> None:
    with pytest.raises(ivjoin.IvjoinError, match="left"):
        ivjoin.explain(given, SCHEMA, condition="l.k = r.k")


@pytest.mark.parametrize("condition", [*CONDITIONS, None])
def test_pictures(condition: str | None) -> None:
    e = ivjoin.explain(SCHEMA, SCHEMA, condition=condition, on="k", left_order="ts", right_order="ts")
    picture = ElementTree.fromstring(e.svg())
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    boxes = [r for r in picture.iter("{http://www.w3.org/2000/svg}rect") if "rx" in r.attrib]
    assert len(boxes) == len(e.boxes) > 2
    corners = [[float(b.attrib[k]) for k in ("x", "y", "width", "height")] for b in boxes]
    for i, (x, y, w, h) in enumerate(corners):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        assert all(x + w <= a or a + c <= x or y + h <= b or b + d <= y for a, b, c, d in corners[:i])
    texts = "".join(picture.itertext())
    assert all(line in texts for line in e.state if len(line) < 110)
    lines = e.mermaid().splitlines()
    assert lines[0] == "flowchart BT"
    assert sum("-->" in line for line in lines) == sum(len(set(b.args)) for b in e.boxes)
    assert all(line.count('"') in (0, 2) for line in lines)
    assert "<svg" in e._repr_html_() and "<pre>" in e._repr_html_()
    again = pickle.loads(pickle.dumps(e))
    assert again == e == str(e)
    assert again.svg() == e.svg()


def test_names_are_escaped() -> None:
    s = pa.schema({'<b>"&': pa.int64()})
    e = ivjoin.explain(s, s, condition='l.`<b>"&` >= r.`<b>"&`')
    ElementTree.fromstring(e.svg())
    assert "<b>" not in e.svg() and "<b>" not in e._repr_html_()
    assert all(line.count('"') in (0, 2) for line in e.mermaid().splitlines())


@pytest.mark.parametrize("tried", ["TRY_CAST(l.x AS INT)", "try_add(l.n, l.n)", "try_divide(l.x, CAST(l.n AS DOUBLE))"])
def test_attempts_are_reported(tried: str) -> None:
    schema = pa.schema({"x": pa.float32(), "n": pa.int8(), "t": pa.int64()})
    for condition in (f"{tried} = r.t", f"{tried} IS NULL AND r.t > 3", f"{tried} <= r.x"):
        text = str(ivjoin.explain(schema, schema, condition=condition, left_order="t", right_order="t"))
        assert tried.partition("(")[0].lower() in text.lower()


PAIRS = pa.schema({"t": pa.int64(), "v": pa.int64()})
NO_NULLS = pa.schema([pa.field("t", pa.int64(), False), pa.field("v", pa.int64(), False)])


def state_of(condition: str, schema: pa.Schema = PAIRS) -> str:
    text = str(ivjoin.explain(schema, schema, condition=condition, left_order="t", right_order="t"))
    return text[text.index("\nstate\n"):]


def test_sums_to_the_right_of_a_minus_have_brackets() -> None:
    text = str(ivjoin.explain(PAIRS, PAIRS, condition="l.t + l.v < r.t + r.v + 5"))
    assert "l.t + l.v - (r.t + r.v) <= 4" in text
    assert "l.t - r.t <= 4" in str(ivjoin.explain(PAIRS, PAIRS, condition="l.t < r.t + 5"))


def test_a_bound_has_its_own_source() -> None:
    said = state_of("l.t < r.v + 5 AND l.t * r.t > 50 * r.t + r.t * r.t")
    lines = [line for line in said.splitlines() if "left rows are stored while l.t" in line]
    assert len(lines) == 1
    assert lines[0].endswith("from the residual")


def test_unbounded_values_give_no_bound() -> None:
    assert "is anything" not in state_of("l.t - r.v + r.t < 5 AND l.t > r.t - r.v")


@pytest.mark.parametrize(("condition", "who"), [
    ("greatest(l.t, l.v) BETWEEN greatest(r.t, r.v) - 5 AND least(r.t, r.v) + 5", "l.t is not nullable"),
    ("abs(greatest(l.v, l.t) - r.t) < 5", "l.t is not nullable"),
])  # fmt: skip
def test_nulls_are_named_where_they_hold_rows(condition: str, who: str) -> None:
    assert who in state_of(condition)
    assert "not nullable" not in state_of(condition, NO_NULLS)


def test_null_safe_keys_in_order_say_why_they_hold_rows() -> None:
    assert "l.t <=> r.t matches NULL with NULL" in state_of("l.t <=> r.t")
    assert "lets NULL" not in state_of("l.t <=> r.t AND l.t < r.t + 5")


@pytest.mark.parametrize("options", [
    {"direction": "backward"}, {"direction": "nearest"}, {"by": "k"}, {"tolerance": "5 seconds"},
    {"offsets": ["-1s", "5s"], "columns": ["price_5s"]}, {"interpolate": "price"},
    {"allow_exact_matches": False}, {"ties": "price", "by": ["k"]}, {"slack": "1 seconds", "how": "inner"},
])  # fmt: skip
@pytest.mark.parametrize("schemas", [False, True])
def test_arguments_of_an_as_of_join(options: dict[str, Any], schemas: bool) -> None:
    table = SCHEMA.empty_table()
    given = SCHEMA if schemas else table
    text = str(ivjoin.explain(given, given, on="ts", **options))
    assert text.startswith(f"{options.get('how', 'left')} join")
    assert "each left row takes one row of those that match" in text
    joined = ivjoin.asof_join(table, table, on="ts", **options)
    if "offsets" in options or "interpolate" in options:
        each = "backward at -1s and backward at 5s" if "offsets" in options else "backward and forward"
        assert f"\n  each left row is looked up 2 times: {each}\n" in text
        assert f"looked up 2 times: {each}" in joined.explain()
    assert joined.read_all().num_rows == 0


def test_arguments_of_several_lookups_are_checked() -> None:
    for options, said in (
        ({"offsets": ["1s"], "columns": ["price_1"]}, "'price_1', which the output does not have"),
        ({"offsets": ["1s"], "how": "full"}, "leave how out"), ({"interpolate": "no"}, "interpolate has 'no'"),
    ):
        with pytest.raises(ivjoin.IvjoinError, match=said):
            ivjoin.explain(SCHEMA, SCHEMA, on="ts", **options)


def test_arguments_of_two_functions_at_once() -> None:
    pick, aggregate = ivjoin.Pick("ts"), {"n": "count(*)"}
    for options, said in (
        ({"direction": "backward", "pick": pick}, "direction=, of asof_join, and pick=, of band_join"),
        ({"by": "k", "right_bounds": {"ts": (None, None)}}, "by=, of asof_join, and right_bounds=, of band_join"),
        ({"slack": 1, "aggregate": aggregate}, "slack=, of asof_join, and aggregate=, of window_join"),
        ({"pick": pick, "aggregate": aggregate}, "aggregate=, of window_join, and pick=, of band_join"),
    ):
        with pytest.raises(ivjoin.errors.OptionError, match=f"explain got {said}; give one of the two"):
            ivjoin.explain(SCHEMA, SCHEMA, on="ts", **options)
    with pytest.raises(ivjoin.ColumnError, match="on is None; expected the column of time"):
        ivjoin.explain(SCHEMA, SCHEMA, by="k")


def test_a_condition_of_an_as_of_join() -> None:
    text = ivjoin.explain(SCHEMA, SCHEMA, on="ts", by="k", condition="l.w = r.w")
    assert "each left row takes one row of those that match" in text
    assert "l.w = r.w" in text


def test_every_option_of_a_band_join() -> None:
    options: Any = {"maintain_order": "left", "indicator": True, "validate": "m:1", "idle_timeout": "5s"}
    assert str(ivjoin.explain(SCHEMA, SCHEMA, on="k", **options)) == str(ivjoin.explain(SCHEMA, SCHEMA, on="k"))
    for wrong in ({"indicator": ""}, {"validate": "2:1"}, {"maintain_order": "up"}, {"idle_timeout": "soon"}):
        with pytest.raises(ivjoin.OptionError, match=f"{next(iter(wrong))} is "):
            ivjoin.explain(SCHEMA, SCHEMA, on="k", **wrong)


def test_text_in_place_of_an_input() -> None:
    with pytest.raises(ivjoin.SchemaError, match=r"the text 'l.k = r.k'; expected explain\(left, right, condition="):
        ivjoin.explain("l.k = r.k", SCHEMA)
    with pytest.raises(ivjoin.FileError, match="there is no such file"):
        ivjoin.explain("day=1/x.parquet", SCHEMA, on="k")


def test_an_argument_given_twice_or_without_its_name() -> None:
    with pytest.raises(ivjoin.errors.OptionError, match=r"explain\(\) got 'on' twice: by its name, and as 'k' without"):
        ivjoin.explain(SCHEMA, SCHEMA, "k", on="k")
    with pytest.raises(ivjoin.errors.OptionError, match=r"band_join\(\) got 5 without a name; only left, right, on,"):
        ivjoin.band_join(SCHEMA, SCHEMA, "k", None, "inner", 5)


def test_an_operator_explains_itself() -> None:
    options: dict[str, Any] = {"on": "k", "condition": "l.w >= r.w - 5", "left_order": "w", "right_order": "w"}
    op = ivjoin.SymmetricHashJoin(SCHEMA, SCHEMA, **options)
    text = op.explain()
    assert text == ivjoin.explain(SCHEMA, SCHEMA, **options)
    assert "upper limit such as l.w <= r.w - 5.0 + 100" in text
    assert op.explain().svg() == text.svg()


def test_conditions_as_deep_as_they_may_be() -> None:
    """The domains of all nodes take one pass, so the time grows with the length of the condition."""
    deep = "l.k <= r.k" + " + 1" * 900
    assert "l.k - r.k <= 900" in ivjoin.explain(SCHEMA, SCHEMA, condition=deep)
    added = ivjoin.right("k")
    for _ in range(5000):
        added = added + 1
    for condition in ("l.k <= r.k" + " + 1" * 5000, ivjoin.left("k") <= added):
        with pytest.raises(ivjoin.ConditionError, match=r"nested too deeply.*about 1,000"):
            ivjoin.explain(SCHEMA, SCHEMA, condition=condition)
