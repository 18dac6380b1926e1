"""Conjuncts that the operator cannot evaluate: Spark filters the rows of an inner join by them, others are refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.backends import BACKENDS, store_for
from spark.script import Script, StreamFailed, rows_of

pytest.importorskip("pyspark", reason="pyspark is not installed")

from ivjoin.errors import ColumnError, UnsupportedError
from ivjoin.spark.conditions.leftover import conjuncts

pytestmark = pytest.mark.spark

NAMED = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("s", pa.string()), ("a", pa.list_(pa.int64()))])
BAND = "l.t BETWEEN r.t - 3 AND r.t"
# A distance in words that only Spark has.
FAR = "element_at(array(levenshtein(l.s, r.s)), 1)"
WORDS = ["kitten", "sitting", "mitten", "knitting", ""]


def rows(side: int, n: int = 60) -> list[tuple[Any, ...]]:
    return [(i % 3, i, WORDS[(i * 7 + side) % 5], [i, i % 4]) for i in range(n)]


def edits(a: str, b: str) -> int:
    """Levenshtein's distance, by its recurrence."""
    line = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, line[0] = line[0], i
        for j, y in enumerate(b, 1):
            above, line[j] = line[j], min(line[j] + 1, line[j - 1] + 1, above + (x != y))
    return line[-1]


def pairs(test: Any) -> Counter[Any]:
    """Keys and times of the pairs within the band for which ``test(left row, right row)``."""
    return Counter(
        (a[0], a[1], b[1]) for a in rows(0) for b in rows(1) if a[0] == b[0] and b[1] - 3 <= a[1] <= b[1] and test(a, b)
    )


@pytest.fixture(scope="module")
def sides(spark: Any) -> tuple[Any, Any]:
    columns = [list(zip(*rows(side), strict=True)) for side in (0, 1)]
    left, right = (
        pa.table([pa.array(c, f.type) for c, f in zip(cs, NAMED, strict=True)], schema=NAMED) for cs in columns
    )
    return spark.createDataFrame(left), spark.createDataFrame(right)


@pytest.mark.parametrize("text, parts", [
    ("a", ["a"]),
    ("a = 1 AND b = 2", ["a = 1", "b = 2"]),
    ("((a) and (b AND (c OR d)))", ["a", "b", "c OR d"]),
    ("a AND b OR c", ["a AND b OR c"]),
    ("(a AND b) OR (c AND d)", ["(a AND b) OR (c AND d)"]),
    ("NOT a BETWEEN b AND c AND d", ["NOT a BETWEEN b AND c", "d"]),
    ("a BETWEEN 1 AND 2 AND b BETWEEN c AND d", ["a BETWEEN 1 AND 2", "b BETWEEN c AND d"]),
    ("CASE WHEN a AND b THEN c BETWEEN 1 AND 2 ELSE d END AND e",
     ["CASE WHEN a AND b THEN c BETWEEN 1 AND 2 ELSE d END", "e"]),
    ("s = 'x AND y' AND `p AND q` = \"r OR s\"", ["s = 'x AND y'", "`p AND q` = \"r OR s\""]),
    (r"s = 'it\'s AND' AND t = 'it''s AND' AND u = r'\' AND v",
     [r"s = 'it\'s AND'", "t = 'it''s AND'", r"u = r'\'", "v"]),
    ("a -- one AND two\nAND /* three AND four */ b", ["a -- one AND two", "/* three AND four */ b"]),
    ("l.and = 1 AND r.`or` = f(x -> x AND y)[1 AND 2]", ["l.and = 1", "r.`or` = f(x -> x AND y)[1 AND 2]"]),
    ("(a) AND (b)", ["a", "b"]),
    ("(a, b) IN ((1, 2)) AND c", ["(a, b) IN ((1, 2))", "c"]),
])  # fmt: skip
def test_text_is_split_at_its_outermost_ands(text: str, parts: list[str]) -> None:
    assert conjuncts(text) == parts


@pytest.mark.parametrize("text, test", [
    ("levenshtein(l.s, r.s) < 3", lambda a, b: edits(a[2], b[2]) < 3),
    ("levenshtein(a.s, bb.s) < 4 AND left.a[1] <> right.a[1]",
     lambda a, b: edits(a[2], b[2]) < 4 and a[3][1] != b[3][1]),
    ("exists(l.a, v -> v = r.t)", lambda a, b: b[1] in a[3]),
    ("(array_contains(`L`.a, R.t) OR l.t < 5)", lambda a, b: b[1] in a[3] or a[1] < 5),
    ("try_cast(l.s AS INT) IS NULL AND size(R.A) = 2 -- all of them", lambda a, b: True),
])  # fmt: skip
def test_sql_text_on_static_frames(sides: tuple[Any, Any], text: str, test: Any) -> None:
    left, right = sides[0].alias("a"), sides[1].alias("bb")
    out = left.band_join(right, on="k", condition=f"{BAND} AND {text}")
    assert out.columns == ["k", "t", "s", "a", "t_right", "s_right", "a_right"]
    want = pairs(test)
    assert sum(want.values()) > 0
    assert Counter((r.k, r.t, r.t_right) for r in out.collect()) == want


def test_columns_on_static_frames(sides: tuple[Any, Any]) -> None:
    from pyspark.sql import functions as F

    left, right = sides
    band = (left.t >= right.t - 3) & (left.t <= right.t)
    for condition, test in (
        (band & (F.levenshtein(left.s, right.s) < 3), lambda a, b: edits(a[2], b[2]) < 3),
        (band & (left.a[1] == right["a"].getItem(1)), lambda a, b: a[3][1] == b[3][1]),
        (F.exists(left.a, lambda v: v == right.t) & band, lambda a, b: b[1] in a[3]),
        (band & (F.aggregate(left.a, F.lit(0).cast("long"), lambda x, y: x + y) > right.t),
         lambda a, b: sum(a[3]) > b[1]),
        (band & (left.t.bitwiseAND(1) == right.t.bitwiseAND(1)), lambda a, b: a[1] % 2 == b[1] % 2),
        (band & F.expr("size(l.a) = 2") & left.s.try_cast("int").isNull() & (F.length(left.s) > 3),
         lambda a, b: len(a[2]) > 3),
    ):  # fmt: skip
        out = left.band_join(right, on="k", condition=condition)
        assert Counter((r.k, r.t, r.t_right) for r in out.collect()) == pairs(test), condition


def test_names_types_and_keys_are_those_of_the_sides(spark: Any) -> None:
    left = spark.sql("SELECT CAST(id AS INT) k, id AS only_left, id AS both, named_struct('f', id) st FROM range(20)")
    right = spark.sql("SELECT id AS k, id + 1 AS only_right, id AS both, CAST(id AS STRING) l FROM range(20)")
    text = (
        "typeof(l.k) = 'int' AND typeof(r.k) = 'bigint' AND l.st.f = r.both AND only_left + size(array(only_right)) > 9"
        " AND typeof(k) = 'bigint' AND r.l = CAST(r.both AS STRING) AND size(array(r.l)) = 1"
    )
    out = left.band_join(right, on="k", condition=text)
    assert out.columns == ["k", "only_left", "both", "st", "only_right", "both_right", "l"]
    assert dict(out.dtypes)["k"] == "bigint"
    assert sorted(r.k for r in out.collect()) == list(range(9, 20))
    pair = left.band_join(right, on=[("both", "both")], condition="size(array(r.both)) = 1 AND l.k < 4")
    assert sorted(r.both for r in pair.collect()) == [0, 1, 2, 3]


@pytest.mark.parametrize("backend", [BACKENDS[0], pytest.param(BACKENDS[1], marks=pytest.mark.soak)])
def test_streams_of_both_backends_filter_alike(spark: Any, tmp_path: Path, backend: str) -> None:
    def join(a: Any, b: Any, most: int = 3) -> Any:
        return a.band_join(
            b, on="k", condition=f"{FAR} < {most} AND {BAND}", left_order="t", right_order="t", buckets=2,
            backend=backend,
        )

    with store_for(spark, backend):
        script = Script(spark, tmp_path, join, NAMED, NAMED)
        got: Counter[Any] = Counter()
        for begin, end in ((0, 40), (40, 60)):
            got += script.add(left=rows(0)[begin:end], right=rows(1)[begin:end]).run()
        assert Counter((r[0], r[1], r[4]) for r in got.elements()) == pairs(lambda a, b: edits(a[2], b[2]) < 3)
        assert script.counts()[-1]["state_rows"] < 12  # the band still prunes
        script.join = lambda a, b: join(a, b, 4)
        script.add(left=rows(0, 65)[60:])
        with pytest.raises(StreamFailed, match="condition left to Spark was .*< 3' and is now .*< 4'"):
            script.run()


@pytest.mark.parametrize("how", ["left", "right", "full", "left_semi", "left_anti", "right_semi", "right_anti"])
def test_other_join_types_refuse_by_name(spark: Any, sides: tuple[Any, Any], how: str) -> None:
    from pyspark.sql import functions as F

    left, right = sides
    stream = spark.readStream.format("rate").load().selectExpr("value AS k", "value AS t", "string(value) AS s")
    for a, b in ((left, right), (stream, stream.alias("again"))):
        with pytest.raises(UnsupportedError, match=rf"array\(\)(.|\n)*Only an inner join .* a {how} join"):
            a.band_join(b, on="k", condition=f"{BAND} AND {FAR} < 3", how=how)
    with pytest.raises(UnsupportedError, match="an element of an array or map"):
        left.band_join(right, on="k", condition=left.a[0] == right.t, how=how)
    with pytest.raises(UnsupportedError, match="soundex"):
        left.band_join(right, on="k", condition=F.soundex(left.s) == F.soundex(right.s), how=how)


def test_conjuncts_that_nobody_can_evaluate_are_refused_before_the_query(spark: Any, sides: tuple[Any, Any]) -> None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    left, right = sides
    with pytest.raises(AnalysisException, match="levenshtine"):
        left.band_join(right, on="k", condition="levenshtine(l.s, r.s) < 3")
    with pytest.raises(ColumnError, match="'tt' is not in left"):
        left.band_join(right, on="k", condition="l.tt > r.t AND levenshtein(l.s, r.s) < 3")
    far = F.udf(lambda a, b: a != b, "boolean")
    with pytest.raises(UnsupportedError, match=r"user-defined function.*\.where"):
        left.band_join(right, on="k", condition=(left.t == right.t) & far(left.s, right.s))


def test_explain_shows_the_conjuncts_left_to_spark(sides: tuple[Any, Any]) -> None:
    from ivjoin.spark import explain

    text = explain(*sides, on="k", condition=f"{BAND} AND {FAR} < 3")
    assert f"left to Spark, which filters the joined rows by it: {FAR} < 3" in text
    assert "band term" in text


def test_an_every_conjunct_left_over_without_keys_is_a_filtered_product(sides: tuple[Any, Any]) -> None:
    left, right = (s.limit(8).select("t", "s") for s in sides)
    out = left.band_join(right, condition=f"{FAR} = 0")
    want = Counter((a[1], b[1]) for a in rows(0, 8) for b in rows(1, 8) if a[2] == b[2])
    assert Counter((r.t, r.t_right) for r in out.collect()) == want
    assert rows_of(out.toArrow()) == rows_of(left.crossJoin(right).where(left.s == right.s).toArrow())
