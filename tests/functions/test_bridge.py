"""Expressions and typed intervals share one class of types and one table of their limits."""

from __future__ import annotations

import ast

import pyarrow as pa
import pytest
from places import ROOT

from ivjoin.expr.types import from_arrow
from ivjoin.interval import domain
from ivjoin.interval.errors import IntervalTypeError
from ivjoin.interval.machine.domains import HAVE_INTERVALS

PACKAGE = ROOT / "ivjoin"
UNITS = ("s", "ms", "us", "ns")
ARROW = [
    *(pa.type_for_alias(f"{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)), pa.float32(), pa.float64(),
    pa.decimal128(38, 0), pa.decimal128(9, 9), pa.date32(), *(pa.timestamp(u) for u in UNITS),
    *(pa.timestamp(u, "Asia/Kolkata") for u in UNITS), *(pa.duration(u) for u in UNITS), pa.time32("s"),
    pa.time64("ns"),
]  # fmt: skip


@pytest.mark.parametrize("arrow", ARROW, ids=str)
def test_a_columns_type_is_the_domain_of_its_name(arrow: pa.DataType) -> None:
    t = from_arrow(arrow)
    assert t.kind in HAVE_INTERVALS
    d = domain(t)
    assert type(d) is type(t)
    assert d == domain(str(d)) == domain(str(t).replace(", Asia/Kolkata", ""))
    assert d.limits == t.limits
    assert (d == t) == (t.tz is None)
    assert d.is_float != t.is_discrete


@pytest.mark.parametrize("arrow", [pa.string(), pa.binary(), pa.bool_(), pa.null(), pa.decimal256(50, 2)], ids=str)
def test_of_other_types_there_are_none(arrow: pa.DataType) -> None:
    with pytest.raises(IntervalTypeError, match="typed intervals of .* do not exist"):
        domain(from_arrow(arrow))


@pytest.mark.slow
def test_there_is_one_class_and_one_table() -> None:
    classes, tables = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                told = [a.target for a in node.body if isinstance(a, ast.AnnAssign)]
                fields = {t.id for t in told if isinstance(t, ast.Name)}
                if {"kind", "bits"} <= fields:
                    classes.append(f"{name}: {node.name}")
            if isinstance(node, ast.FunctionDef) and node.name.endswith("limits"):
                if "DAY" in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
                    tables.append(name)
    assert classes == ["interval/machine/types.py: Type"]
    assert tables == ["interval/machine/types.py"]
