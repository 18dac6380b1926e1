"""Every example runs, and so does every Python block of the documents, page by page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)

SAYS = {
    "first_join.py": "{'user': 2, 'ts': 75, 'page': 'home', 'ts_right': 60, 'ad': 'books'}",
    "mean_price_around_each_trade.py": "pairs that were not built",
    "late_rows.py": "1 late row",
    "what_is_stored.py": "right rows are stored while r.ts >= ",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_a_script(name: str, tmp_path: Path) -> None:
    around = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=around, timeout=300)
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout


def test_the_notebook() -> None:
    cells = json.loads((EXAMPLES / "drawn.ipynb").read_text())["cells"]
    known: dict[str, Any] = {}
    shown = []
    for source in ("".join(c["source"]) for c in cells if c["cell_type"] == "code"):
        *before, last = source.rstrip().splitlines()
        exec("\n".join(before), known)
        try:
            shown.append(eval(last, known))
        except SyntaxError:
            exec(last, known)
    drawn, frame = shown
    assert "<svg" in drawn._repr_html_()
    assert frame.to_dict("records") == [
        {"user": 1, "ts": 10, "ts_right": 5, "ad": "shoes"}, {"user": 2, "ts": 75, "ts_right": 60, "ad": "books"},
    ]  # fmt: skip


def tables(n: int = 300) -> dict[str, Any]:
    """What the pages speak of as given."""
    import sympy

    import ivjoin

    rng = np.random.default_rng(3)
    made = [pa.table({"k": rng.integers(0, 9, n), "t": np.sort(rng.integers(0, 10**4, n))}) for _ in range(2)]
    l_a, r_b = sympy.symbols("l_a r_b")
    return {
        "ivjoin": ivjoin, "pa": pa, "sympy": sympy, "l_a": l_a, "r_b": r_b, "left": made[0], "right": made[1],
        "left_sample": made[0], "right_sample": made[1], "batch": made[0].to_batches()[0],
        **{name: pa.table({"sym": [1, 2], "ts": [5, 6], name: [0, 1]}) for name in ("quotes", "trades", "news")},
    }  # fmt: skip


def files(folder: Path) -> None:
    ts = pa.array(np.arange(50) * 60_000_000).view(pa.timestamp("us"))
    (folder / "clicks").mkdir()
    pq.write_table(pa.table({"user": np.arange(50) % 3, "ts": ts, "click": np.arange(50)}), folder / "clicks/1.parquet")
    pq.write_table(pa.table({"user": np.arange(50) % 4, "ts": ts, "view": np.arange(50)}), folder / "views.parquet")
    (folder / "prices.csv").write_bytes("id;price;stadt\n1;2,50;Zürich\n2;NULL;\n".encode("latin-1"))
    (folder / "events.json").write_text('[{"id": 1, "at": "2024-01-01T00:00:00Z"}]')
    days = pa.array(np.arange(40) * 10 + 19_700, pa.int32()).view(pa.date32())
    pq.write_table(pa.table({"started": days, "fare": np.arange(40) * 1.5}), folder / "trips.parquet", row_group_size=3)


# What stands between blocks in the text alone.
BETWEEN = {
    ("parallel", 2): (
        "from ivjoin.routing import along; better_plan, passed = plan, 0; edge = along(plan).edge('left', batch)"
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT / "docs").as_posix())
def test_the_blocks_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = BLOCK.findall(page.read_text())
    # a session, and streams: tests/spark runs the same calls
    if page.name.startswith("spark-") or page.name == "routing.md":
        for block in blocks:
            compile(block, str(page), "exec")
        return
    monkeypatch.chdir(tmp_path)
    if blocks:
        files(tmp_path)
    known = tables() if blocks else {}
    for i, block in enumerate(blocks):
        exec(BETWEEN.get((page.stem, i), ""), known)
        exec(compile(block, f"{page.name}, block {i}", "exec"), known)


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r": (\S+\.md)$", menu, re.MULTILINE))
    assert named == {p.relative_to(ROOT / "docs").as_posix() for p in PAGES}
