"""docs/intervals.md: its examples give what stands beside them, its tables are those that the benchmark writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench import halves, operators, tightness, vectors

PAGE = (Path(__file__).parent.parent.parent / "docs" / "intervals.md").read_text(encoding="utf-8")


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
    rows = re.findall(r"^\| (\w+) \| ([^|]+) \| .*\| (\d+) \|$", PAGE, re.MULTILINE)
    assert {lost for *_, lost in rows} == {"0"}
    listed = {(domain, name.split(" (")[0]) for domain, name, _ in rows}
    assert {("int8", op.name) for op in operators.integers("int2")} <= listed
    assert {("binary16", name) for name in (*halves.BINARY, *halves.UNARY)} <= listed
    for reason in tightness.REASONS.values():
        assert reason in PAGE
    cases = vectors.load()
    for op in cases:
        assert f"`{op}` | {len(cases[op])} / {len(cases[op])}" in PAGE
