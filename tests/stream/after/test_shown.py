"""``repr`` and ``explain()`` of streams and operators."""

from __future__ import annotations

import pyarrow as pa

import ivjoin

LEFT = pa.table({"k": [1, 2, 3], "t": [1, 5, 9]})
RIGHT = pa.table({"k": [1, 2, 2], "u": [2, 9, 30]})
SAID = "abs(l.t - r.u) <= 4"


def test_the_repr_of_a_stream_shows_schema_condition_and_state() -> None:
    stream = ivjoin.band_join(LEFT, RIGHT, "k", SAID)
    assert repr(stream) == (
        "JoinStream(k: int64, t: int64, u: int64)\n  inner join on l.k = r.k AND abs(l.t - r.u) <= 4; not begun"
    )
    stream.read_all()
    assert "; 2 rows emitted, " in repr(stream)
    many = ivjoin.multi_join({"a": LEFT, "b": RIGHT}, "a.k = b.k")
    assert repr(many).startswith("MultiJoinStream(a_k: int64")
    assert repr(many).endswith("\n  join of a and b on a.k = b.k; not begun")
    assert "\n  left join on" in repr(ivjoin.band_join(LEFT, RIGHT, "k", how="left", indicator=True))


def test_explain_of_a_stream_is_that_of_the_call() -> None:
    stream = ivjoin.band_join(LEFT, RIGHT, "k", SAID)
    text = stream.explain()
    assert text == ivjoin.explain(LEFT, RIGHT, "k", SAID)
    assert "band term" in text
    assert repr(text) == str(text)
    assert len(stream.read_all()) == 2
    assert "band term" in stream.explain()
    assert "band term" in ivjoin.band_join(LEFT, RIGHT, "k", SAID, maintain_order="left").explain()
    assert "steps" in ivjoin.multi_join({"a": LEFT, "b": RIGHT}, "a.k = b.k").explain()


def test_explain_of_an_operator() -> None:
    operator = ivjoin.SymmetricHashJoin(LEFT.schema, RIGHT.schema, on="k", condition=SAID, left_order="t")
    said = ivjoin.explain(LEFT.schema, RIGHT.schema, "k", SAID, left_order="t")
    assert operator.explain().partition("\ncondition")[2] == said.partition("\ncondition")[2] != ""


def test_a_pair_and_a_list_of_keys_mean_the_same_everywhere() -> None:
    right = RIGHT.rename_columns(["q", "u"])
    for stream in (
        ivjoin.band_join(LEFT, right, on=("k", "q")), ivjoin.band_join(LEFT, right, on=[("k", "q")]),
        ivjoin.band_join(LEFT, right.append_column("t", right["u"]).drop("u"), on=[("k", "q")], how="left_semi"),
    ):
        assert stream.schema.names[0] == "k"
        assert stream.read_all().num_rows >= 2
    asof = ivjoin.asof_join(LEFT, right, on=("t", "u"), by=("k", "q"), direction="forward").read_all()
    assert asof["u"].to_pylist() == [2, 9, None]
    assert ivjoin.asof_join(LEFT, right, on=("t", "u"), by=[("k", "q")], direction="forward").read_all() == asof


def test_dictionary_keys_stay_dictionaries() -> None:
    words = pa.array(["x", "y", None]).dictionary_encode()
    left = pa.table({"k": words, "t": [1, 2, 3]})
    for how in ("inner", "left", "right", "full"):
        joined = ivjoin.band_join(left, left, on="k", how=how).read_all()
        assert pa.types.is_dictionary(joined.schema.field("k").type), how
        assert {"x", "y"} <= set(joined["k"].to_pylist())
    asof = ivjoin.asof_join(left, left, on="t", by="k").read_all()
    assert pa.types.is_dictionary(asof.schema.field("k").type)
    assert asof["k"].to_pylist() == ["x", "y", None]
