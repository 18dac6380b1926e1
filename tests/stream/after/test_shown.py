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
