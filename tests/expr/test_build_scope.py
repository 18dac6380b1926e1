"""Which column a name means, and the error when it means none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ivjoin.errors import ColumnError, ConditionError
from ivjoin.expr import Scope

LEFT = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us")), ("price", pa.float64()), ("s", pa.struct([("k", pa.int8())]))]
)
RIGHT = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("amount", pa.float64())])


@pytest.mark.parametrize(("qualifier", "name", "expected"), [
    ("l", "ts", ("left", "ts")), ("LEFT", "ts", ("left", "ts")), ("r", "ts", ("right", "ts")),
    ("Right", "id", ("right", "id")), (None, "price", ("left", "price")), (None, "amount", ("right", "amount")),
    (None, "id", ("left", "id")), ("c", "id", ("left", "id")),
])  # fmt: skip
def test_resolve(qualifier, name, expected):
    scope = Scope(LEFT, RIGHT, on=[("id", "id")], aliases={"c": "left"})
    assert scope.resolve(qualifier, name).params == expected


@pytest.mark.parametrize(("qualifier", "name", "says"), [
    (None, "ts", "ambiguous: both inputs have it; write l.ts or r.ts"),
    ("l", "tS", r"'tS' is not in left: left has id, ts, price, s; did you mean 'ts'"),
    ("l", "amount", r"right has it: write r\.amount"),
    (None, "prize", r"not in either input: left has .*; right has .*; did you mean 'price'"),
    ("lft", "ts", r"'lft' in lft\.ts names no input; expected one of l, left, r, right; did you mean 'left'"),
    ("price", "x", "names no input"),
])  # fmt: skip
def test_unknown_names(qualifier, name, says):
    with pytest.raises(ColumnError, match=says):
        Scope(LEFT, RIGHT).resolve(qualifier, name)


def test_a_key_with_two_names_is_not_a_bare_key():
    scope = Scope(LEFT, RIGHT, on=[("id", "amount")])
    with pytest.raises(ColumnError, match="ambiguous"):
        scope.resolve(None, "id")


def test_struct_fields_come_after_a_column():
    scope = Scope(LEFT, RIGHT)
    assert scope.path(["s", "k"]) == (scope.resolve(None, "s"), ["k"])
    assert scope.path(["l", "s", "k"]) == (scope.resolve("l", "s"), ["k"])
    assert scope.path(["l", "s"]) == (scope.resolve("l", "s"), [])
    with pytest.raises(ColumnError, match="names no input"):
        scope.path(["nowhere", "k"])


def test_names_regardless_of_case():
    schema = pa.schema([("Id", pa.int64()), ("A", pa.int8()), ("a", pa.int8())])
    scope = Scope(schema, pa.schema([]), case_sensitive=False)
    assert scope.resolve(None, "ID").params == ("left", "Id")
    assert scope.resolve("l", "a").params == ("left", "a")
    duplicate = Scope(pa.schema([("A", pa.int8()), ("aA", pa.int8()), ("Aa", pa.int8())]), schema, case_sensitive=False)
    with pytest.raises(ColumnError, match="left has 'aA', 'Aa'"):
        duplicate.resolve("l", "AA")


def test_one_input_alone():
    scope = Scope(LEFT, pa.schema([]))
    assert scope.resolve(None, "ts").params == ("left", "ts")
    with pytest.raises(ColumnError, match=r"'x' is not in left: left has id, ts, price, s$"):
        scope.resolve(None, "x")


def test_aliases_name_a_side():
    with pytest.raises(ConditionError, match="must name 'left' or 'right'"):
        Scope(LEFT, RIGHT, aliases={"c": "clicks"})


def test_many_columns_are_not_all_listed():
    scope = Scope(pa.schema([(f"c{i}", pa.int8()) for i in range(50)]), RIGHT)
    with pytest.raises(ColumnError, match=r"c19, \.\.\. \(50 in all\)"):
        scope.resolve("l", "zzz")
