"""Nodes of texts on disk: what is found is what would be read, and nothing else is found."""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ivjoin.errors import ColumnError
from ivjoin.expr.read import kept
from ivjoin.expr.read.sqltext import parse_scalar
from ivjoin.expr.scope import Scope

SIDE = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us")), ("x", pa.float64()), ("d", pa.decimal128(9, 2)),
                  ("s", pa.string()), ("n", pa.struct({"f": pa.int64()}))])  # fmt: skip
TEXTS = (
    "l.ts BETWEEN r.ts AND r.ts + INTERVAL 30 MINUTES", "abs(l.x - r.x) < 1.5e0 OR l.d > 3.25", "l.k % 7 = r.k & 3",
    "CASE WHEN l.x > r.x THEN l.k IN (1, 2, NULL) ELSE NOT isnan(r.x) END", "lower(l.s) <=> r.s AND true",
    "cast(l.x AS decimal(20, 3)) + 9223372036854775808", "coalesce(l.ts, r.ts) - r.ts", "l.ts IS NULL",
    "r.`x` * -0.0d", "year(l.ts) > 2024 -- of late", "sha2(cast(l.s AS binary), 256) IS NOT NULL",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("IVJOIN_KEEP_CONDITIONS", "1")
    monkeypatch.setattr(kept, "_asked", itertools.repeat(0))
    return tmp_path / "ivjoin_conditions"


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_kept_is_what_was_read(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(SIDE, SIDE, [("k", "k")])
    node = parse_scalar(text, scope, "Europe/Berlin")
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr("ivjoin.expr.read.sqltext.tree", lambda text: pytest.fail("it was read again"))
    assert parse_scalar(text, scope, "Europe/Berlin") is node


def test_another_question_has_another_name(folder: Path) -> None:
    def name(text: str = "k < l.ts", zone: str = "UTC", **change: Any) -> str | None:
        made = {"left": SIDE, "right": SIDE, "on": [("k", "k")]} | change
        return kept.name_of(text, Scope(**made), zone)

    other = SIDE.set(1, pa.field("ts", pa.timestamp("ns")))
    names = [
        name(), name("k <= l.ts"), name(zone="Asia/Tokyo"), name(left=other), name(right=other), name(on=[]),
        name(case_sensitive=False), name(aliases={"a": "left"}), name(left=SIDE.remove(0)),
        kept.name_of("k < l.ts", Scope.of_inputs({"l": SIDE, "r": SIDE}), "UTC"),
    ]
    assert None not in names and len(set(names)) == len(names)
    assert name() == names[0] == name(left=SIDE.with_metadata({"of": "another file"}))


def test_what_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(SIDE, SIDE)
    for text in ("l.s = 'a secret'", 'l.s = "a secret"', "l.n.f > r.n.f", "l.x > 1" + " " * 2_000):
        parse_scalar(text, scope)
    with pytest.raises(ColumnError):
        parse_scalar("l.nothing > 1", scope)
    assert not folder.exists()
    monkeypatch.setattr(kept, "_asked", itertools.count(1))
    for i in range(12):
        parse_scalar(f"l.x > {i}", scope)
    assert len(list(folder.iterdir())) == 8
    shutil.rmtree(folder)
    monkeypatch.setattr(kept, "_asked", itertools.repeat(0))
    monkeypatch.setenv("IVJOIN_KEEP_CONDITIONS", "0")
    parse_scalar("l.x > 1", scope)
    assert not folder.exists()


def test_a_damaged_file_and_a_folder_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(SIDE, SIDE)
    node = parse_scalar("l.x > r.x", scope)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for content in (b"", whole[:-1], whole[:40] + b"x" + whole[41:], whole + b" "):
        file.write_bytes(content)
        assert kept.kept(file.name) is None
        assert parse_scalar("l.x > r.x", scope) is node and file.read_bytes() == whole
    (folder.parent / "file").write_text("no folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder.parent / "file"))
    assert parse_scalar("l.x > r.x", scope) is node


def test_files_not_used_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_FILES", 6)
    monkeypatch.setattr(kept, "_FEWER", 3)
    scope = Scope(SIDE, SIDE)
    first = kept.name_of("l.x > 0", scope, "UTC")
    assert first is not None
    for i in range(7):
        parse_scalar(f"l.x > {i}", scope)
        for j, file in enumerate(sorted(folder.iterdir(), key=lambda f: f.stat().st_mtime)):
            os.utime(file, (0, time.time() - 10 * 86_400 + j))
        if i < 6:
            parse_scalar("l.x > 0", scope)  # used since, and marked so
    assert len(list(folder.iterdir())) == 3 and (folder / first).exists()


def test_sources_and_versions_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, parser = tmp_path / "ivjoin", tmp_path / "sqlglot"
    shutil.copytree(kept._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    parser.mkdir()
    (parser / "_version.py").write_text("1")
    spec = SimpleNamespace(origin=str(parser / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(kept, "_PACKAGE", package)
    monkeypatch.setattr(kept, "__file__", str(package / "expr/read/kept.py"))
    stamps = [kept._stamp.__wrapped__()]
    for file in (parser / "_version.py", package / "expr/build/arith.py", package / "operators/casts.py"):
        file.write_text(file.read_text() + "\n")
        stamps.append(kept._stamp.__wrapped__())
    assert None not in stamps and len(set(stamps)) == 4
    (parser / "_version.py").unlink()
    assert kept._stamp.__wrapped__() is None


@pytest.mark.slow
def test_the_next_process_needs_no_parser(folder: Path) -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from ivjoin import SymmetricHashJoin\n"
        "s = pa.schema({'k': pa.int64(), 't': pa.int64()})\n"
        "asked = {'condition': 'l.t BETWEEN r.t - 5 AND r.t', 'left_order': 't', 'right_order': 't + 1'}\n"
        "op = SymmetricHashJoin(s, s, on='k', **asked)\n"
        "print('sqlglot' in sys.modules, op.plan.condition, [str(t) for t in op.plan.kernel_terms])\n"
    )
    python = [sys.executable, "-c", code]
    said = [subprocess.run(python, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said[0].startswith("True") and said[1].startswith("False")
    assert said[0].removeprefix("True") == said[1].removeprefix("False")
