"""Cost by the number of columns, literals and parentheses: the work is done once for each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import ivjoin
from ivjoin.conditions.read.sqltext import parse_scalar
from ivjoin.expr import Scope
from ivjoin.expr.build import comparison
from ivjoin.stream.sources import columns

TWO = pa.table({"k": [1, 2], "t": [1, 2]})
SCOPE = Scope(pa.schema({"k": pa.int64(), "s": pa.string()}), pa.schema({"k": pa.int64()}))


def rows(condition: str) -> int:
    return ivjoin.band_join(TWO, TWO, condition=condition).to_arrow().num_rows


def calls(run: Callable[[], Any]) -> int:
    """The number of calls of ivjoin's functions."""
    found = 0

    def called(frame: FrameType, event: str, _: Any) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename.startswith(str(Path(ivjoin.__file__).parent))

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("literal", ["{}", "'{}'"])
def test_each_literal_of_a_list_costs_few_calls(literal: str) -> None:
    name = "l.s" if "'" in literal else "l.k"
    table = TWO.append_column("s", pa.array(["1", "2"]))

    def cost(count: int) -> int:
        text = f"l.t = r.t AND {name} IN ({', '.join(literal.format(i) for i in range(count))})"
        return calls(lambda: ivjoin.band_join(table, table, condition=text).to_arrow())

    cost(49)  # what is done once in a process
    assert cost(450) - cost(50) <= 2 * 400


def test_each_column_costs_as_many_calls_in_a_wide_table_as_in_a_narrow_one() -> None:
    def cost(count: int) -> int:
        wide = pa.table({f"c{i}": [1, 2] for i in range(count)})
        return calls(lambda: ivjoin.band_join(wide, wide.select(["c0"]), on="c0", threads=1).to_arrow())

    cost(20)
    few, some, many = (cost(n) for n in (40, 80, 160))
    assert many - some <= 2.1 * (some - few)


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
    eq = comparison.eq
    monkeypatch.setattr(comparison, "eq", lambda *args: calls.append(1) or eq(*args))
    name = "l.s" if "'" in values else "l.k"
    node = parse_scalar(f"{name} IN ({', '.join(values.format(i) for i in range(500))})", SCOPE)
    assert (node.op, len(node.args), len(node.params)) == ("in", 1, 500)
    assert {type(v) for v in node.params} == {str if "'" in values else int}
    assert calls == []


def test_literals_beyond_the_type_of_a_list_are_compared() -> None:
    small = Scope(pa.schema({"k": pa.int8()}), pa.schema({"k": pa.int8()}))
    text = f"l.k IN (1, 127, 128, {2**40}, NULL)"
    assert rows(f"l.k = r.k AND {text}") == 1
    table = pa.table({"k": pa.array([1, 127, -128], pa.int8())})
    assert parse_scalar(text, small).type.kind == "bool"
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
