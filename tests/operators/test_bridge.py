"""Types of expressions and domains of typed intervals: one table of limits, one bridge between them."""

from __future__ import annotations

import ast
from pathlib import Path

import pyarrow as pa
import pytest

from ivjoin.expr.types import from_arrow
from ivjoin.interval import domain
from ivjoin.operators.domain import HAVE_INTERVALS, interval_domain, limits_of

ROOT = Path(__file__).parent.parent.parent / "ivjoin"
UNITS = ("s", "ms", "us", "ns")
ARROW = [
    *(pa.type_for_alias(f"{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)), pa.float32(), pa.float64(),
    pa.decimal128(38, 0), pa.decimal128(9, 9), pa.date32(), *(pa.timestamp(u) for u in UNITS),
    *(pa.timestamp(u, "Asia/Kolkata") for u in UNITS), *(pa.duration(u) for u in UNITS), pa.time32("s"),
    pa.time64("ns"),
]  # fmt: skip


@pytest.mark.parametrize("arrow", ARROW, ids=str)
def test_both_say_the_same(arrow: pa.DataType) -> None:
    t = from_arrow(arrow)
    assert t.kind in HAVE_INTERVALS
    d = interval_domain(t)
    assert (d.kind, d.bits, d.precision, d.scale, d.unit) == (t.kind, t.bits, t.precision, t.scale, t.unit)
    assert str(d) == str(t).replace(", Asia/Kolkata", "")
    assert domain(str(d)) == d
    assert d.is_float != t.is_discrete
    if t.is_discrete:
        assert limits_of(t) == t.physical_range() == d.limits


def test_there_is_one_bridge_and_one_table() -> None:
    bridges, tables = [], []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ivjoin.interval"):
                if any(a.name == "Domain" for a in node.names) and not name.startswith("interval/"):
                    bridges.append(name)
            if isinstance(node, ast.FunctionDef) and node.name in ("limits", "_limits"):
                if [a.arg for a in node.args.args][:3] == ["kind", "bits", "signed"]:
                    tables.append(name)
    assert bridges == ["operators/domain.py"]
    assert tables == ["interval/machine/domains.py"]
