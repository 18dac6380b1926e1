"""The examples of docs/intervals.md give the results in their comments; the benchmark writes the tables."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from places import ROOT

from bench import halves, operators, tightness, vectors

DOCS = ROOT / "docs"
PAGE = (DOCS / "intervals.md").read_text(encoding="utf-8")
TABLES = (DOCS / "benchmarks-intervals.md").read_text(encoding="utf-8")


def test_the_examples() -> None:
    names: dict[str, Any] = {}
    checked = 0
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        for line in code.splitlines():
            statement, _, comment = line.partition("#")
            if not statement.strip() or re.match(r"from |\w+ = ", statement):
                exec(statement, names)
                continue
            shown = repr(eval(statement, names))
            want = re.match(r"\s*(\(?(?:\w+\(.*?\)(?:, )?)+\)?)(?=:|$)", comment)
            if want:
                assert shown == want[1]
                checked += 1
    assert checked >= 5


def test_the_tables() -> None:
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \| .*\| (\d+) \|$", TABLES, re.MULTILINE)
    assert {lost for *_, lost in rows} == {"0"}
    listed = {(domain, name.split(" (")[0]) for domain, name, _ in rows}
    assert {("int8", op.name) for op in operators.integers("int2")} <= listed
    assert {("binary16", name) for name in (*halves.BINARY, *halves.UNARY)} <= listed
    for reason in tightness.REASONS.values():
        assert reason in TABLES
    cases = vectors.load()
    for op in cases:
        assert f"`{op}` | {len(cases[op])} / {len(cases[op])}" in TABLES


def test_the_tables_are_written_between_their_marks(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tables -->\nold\n<!-- end of tables -->\nafter\n")
    monkeypatch.setattr(tightness, "PAGE", page)
    row = tightness.Row("int4", "add", *tightness.measure(operators.integers("int4")[0], 3, random.Random(1)))
    monkeypatch.setattr(tightness, "rows", lambda n, samples: iter([row]))
    assert tightness.main([]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- tables -->\n\n| domain | operator |")
    assert text.endswith("<!-- end of tables -->\nafter\n")
    assert "| int4 | add | 100 % | 9 | 100 % |" in text
    assert "old" not in text
    assert "2,218 of 2,218 vectors pass." in capsys.readouterr().out
    row.forward.lost.append("a point")
    assert tightness.main(["--quick"]) == 1
    assert page.read_text() == text
