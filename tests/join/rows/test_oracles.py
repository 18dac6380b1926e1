"""The two oracles against each other, before either judges ivjoin: the nested loop and DuckDB must agree."""

from __future__ import annotations

from collections import Counter

import oracle
import pyarrow as pa
import pytest
from hypothesis import given
from join import duck
from join.cases import Case
from join.strategies import arranged, cases, keeps_order
from join.tables import KINDS, canonical, column, physical, records, rows
from weights import examples

NAN = float("nan")


def _duck_text(case: Case) -> str:
    parts = [f"l.{p} = r.{q}" for p, q in case.names] + ([f"({case.condition.duck})"] if case.condition else [])
    return " AND ".join(parts) or "TRUE"


def _agree(case: Case) -> None:
    keys = [(lambda a, p=p: a[p], lambda b, q=q: b[q], False) for p, q in case.names]
    want = oracle.pairs(
        records(case.left), records(case.right), case.how, keys, case.condition.value if case.condition else None
    )
    assert Counter(duck.pairs(case.left, case.right, case.how, _duck_text(case))) == Counter(want)


@pytest.mark.slow
@given(cases())
@examples(0.5)
def test_nested_loop_and_duckdb_agree(case: Case) -> None:
    _agree(case)


LEFT, RIGHT = [(1, "a"), (2, "b"), (2, "c"), (None, "d")], [(2, 7.0), (2, 7.0), (3, 8.0), (None, 9.0)]
KEY = [(lambda a: a[0], lambda b: b[0], False)]
BOTH = {(2, "b", 2, 7.0): 2, (2, "c", 2, 7.0): 2}
LONE_LEFT = {(1, "a", None, None): 1, (None, "d", None, None): 1}
LONE_RIGHT = {(None, None, 3, 8.0): 1, (None, None, None, 9.0): 1}


@pytest.mark.parametrize(("how", "want"), [
    pytest.param("inner", BOTH, id="inner"),
    pytest.param("left", BOTH | LONE_LEFT, id="left"),
    pytest.param("right", BOTH | LONE_RIGHT, id="right"),
    pytest.param("full", BOTH | LONE_LEFT | LONE_RIGHT, id="full"),
    pytest.param("left_semi", {(2, "b"): 1, (2, "c"): 1}, id="left_semi"),
    pytest.param("left_anti", {(1, "a"): 1, (None, "d"): 1}, id="left_anti"),
    pytest.param("right_semi", {(2, 7.0): 2}, id="right_semi"),
    pytest.param("right_anti", {(3, 8.0): 1, (None, 9.0): 1}, id="right_anti"),
])  # fmt: skip
def test_the_nested_loop_by_hand(how: str, want: dict) -> None:
    assert oracle.join(LEFT, RIGHT, how, KEY) == Counter(want)


def test_a_condition_that_is_null_is_not_true() -> None:
    assert oracle.join([(1,)], [(1,)], "left", condition=lambda a, b: None) == Counter({(1, None): 1})


def test_null_safe_keys_and_merged_columns() -> None:
    key = [(lambda a: a[0], lambda b: b[0], True)]
    assert oracle.join([(None, 1)], [(None, 2), (5, 3)], "full", key, merged=[(0, 0)]) == Counter(
        {(None, 1, 2): 1, (5, None, 3): 1}
    )


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [(NAN, NAN, True), (-0.0, 0.0, True), (None, None, False), (1, 1.0, True), (NAN, 1.0, False)],
    ids=str,
)
def test_equality_of_keys(a: object, b: object, equal: bool) -> None:
    assert oracle.same(a, b, False) is equal


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_columns_hold_what_was_put_in(kind) -> None:
    got = physical(pa.concat_arrays([column(kind, [None]), column(kind, [None, *kind.domain])]).slice(1))
    assert [canonical(v) for v in got] == [canonical(v) for v in (None, *kind.domain)]


def test_canonical_rows_tell_signed_zeros_apart_and_not_nans() -> None:
    table = pa.table({"v": [0.0, -0.0, NAN, -NAN]})
    a, b, c, d = rows(table)
    assert a != b and c == d


class _First:
    """Draws the last choice always."""

    def __call__(self, strategy):
        return strategy.elements[-1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls", [None, "first", "last"])
def test_arranged_rows_keep_their_promise(descending: bool, nulls: str | None) -> None:
    seen = [3, None, 1, 2, None, 9, 4, 0]
    order = arranged(_First(), seen, descending, 2, nulls)
    assert sorted(order) == list(range(len(seen)))
    moved = [seen[i] for i in order]
    live = [-v if descending else v for v in moved if v is not None]
    assert keeps_order(live, 2)
    if nulls == "first":
        assert moved[:2] == [None, None]
    if nulls == "last":
        assert moved[-2:] == [None, None]


@pytest.mark.parametrize(
    ("seen", "slack", "kept"),
    [([1, 2, 0], 2, True), ([1, 3, 0], 2, False), ([1, 3, 0], 3, True), ([], 0, True), ([2, 1], 0, False)],
    ids=str,
)
def test_keeps_order(seen: list[int], slack: int, kept: bool) -> None:
    assert keeps_order(seen, slack) is kept
