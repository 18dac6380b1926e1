"""What grows with the number of columns, of literals and of parentheses: the work is done once for each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.expr import Scope, build
from ivjoin.expr.read.sqltext import parse
from ivjoin.stream import columns

TWO = pa.table({"k": [1, 2], "t": [1, 2]})
SCOPE = Scope(pa.schema({"k": pa.int64(), "s": pa.string()}), pa.schema({"k": pa.int64()}))


def rows(condition: str) -> int:
    return ivjoin.band_join(TWO, TWO, condition=condition).to_arrow().num_rows


@pytest.mark.parametrize("options", [{}, {"how": "left"}, {"columns": ["t", "c7"]}])
def test_names_of_columns_are_looked_up_once(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    wide = pa.table({"t": [1, 2], **{f"c{i}": [i, i] for i in range(200)}})
    calls = []
    origins = columns._origins
    monkeypatch.setattr(columns, "_origins", lambda plan: calls.append(1) or origins(plan))
    out = ivjoin.band_join(wide, wide.select(["t"]), on="t", **options).to_arrow()
    assert out.num_rows == 2
    assert 1 <= len(calls) <= 4


def test_no_module_makes_a_list_of_all_types_for_one() -> None:
    root = Path(ivjoin.__file__).parent
    found = [p.name for p in root.rglob("*.py") if re.search(r"schema\.types\[\w", p.read_text())]
    assert found == []


@pytest.mark.parametrize("values", ["{}", "'{}'"])
def test_a_literal_of_a_list_is_not_compared_by_itself(values: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    eq = build.eq
    monkeypatch.setattr(build, "eq", lambda *args: calls.append(1) or eq(*args))
    name = "l.s" if "'" in values else "l.k"
    node = parse(f"{name} IN ({', '.join(values.format(i) for i in range(500))})", SCOPE)
    assert (node.op, len(node.args)) == ("in", 501)
    assert {a.type for a in node.args} == {node.args[0].type}
    assert calls == []


def test_literals_beyond_the_type_of_a_list_are_compared() -> None:
    small = Scope(pa.schema({"k": pa.int8()}), pa.schema({"k": pa.int8()}))
    text = f"l.k IN (1, 127, 128, {2**40}, NULL)"
    assert rows(f"l.k = r.k AND {text}") == 1
    table = pa.table({"k": pa.array([1, 127, -128], pa.int8())})
    assert parse(text, small).type.kind == "bool"
    assert ivjoin.band_join(table, table, condition=f"l.k = r.k AND {text}").to_arrow().num_rows == 2


@pytest.mark.parametrize("condition, count", [
    ("(" * 500 + "l.t" + ")" * 500 + " = r.t", 2),
    ("(" * 500 + "l.t = r.t" + ")" * 500, 2),
    ("l.t = r.t AND " + "NOT (" * 500 + "l.k > 1" + ")" * 500, 1),
    ("l.t = r.t AND l.k < r.k" + " + 1" * 500, 2),
])  # fmt: skip
def test_five_hundred_levels_are_read(condition: str, count: int) -> None:
    assert rows(condition) == count


@pytest.mark.slow
@pytest.mark.parametrize("levels", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_far_deeper_ones_are_refused(levels: int) -> None:
    with pytest.raises(ivjoin.ConditionError, match="nested too deeply to be read: .* split it at its ANDs"):
        rows("(" * levels + "l.t = r.t" + ")" * levels)
