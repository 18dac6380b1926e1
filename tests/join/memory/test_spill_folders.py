"""Spill folders that are full, read-only or deleted, and snapshots of spilled rows whose process has ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from memory.spilled import KINDS, SCHEMA, goes_on, pushed, question_of, rows_of, schema_of, whole
from places import PATHS

from ivjoin import IvjoinError, ProtocolError, Spill, SymmetricHashJoin


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that fork")
def test_forked_process_does_not_delete_files(tmp_path: Path) -> None:
    turns = 12
    op = SymmetricHashJoin(SCHEMA, SCHEMA, **question_of("key"), memory_limit=60_000, when_full=Spill(tmp_path))
    got = pushed(op, "key", range(6))
    assert op.metrics.spilled_rows > 0
    read, write = os.pipe()
    child = os.fork()
    if not child:
        said = "no error"
        try:
            pushed(op, "key", range(6, turns))
        except ProtocolError as e:
            said = str(e)
        finally:
            os.write(write, said.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert b"forked" in pipe.read()
    os.waitpid(child, 0)
    got += pushed(op, "key", range(6, turns)) + rows_of(op.finish())
    assert got == whole("key", turns)


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_folder_deleted_while_it_has_rows(kind: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "spill", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    schema = schema_of(kind)
    op = SymmetricHashJoin(schema, schema, **question_of(kind), memory_limit=60_000, when_full=Spill(folder))
    lay = 0

    def at_turn(op: SymmetricHashJoin, i: int) -> None:
        nonlocal lay
        if i == 6:
            lay = op.metrics.spilled_rows
            folder.rmdir()  # the files have no names

    errors = goes_on(op, kind, 30, other, "No such file or directory", at_turn)
    assert lay > 0
    assert errors <= 1


def _private(folder: Path, options: str, code: str, *arguments: str) -> str:
    """What a process prints that has a small file system of its own at a folder; skips where none can be had."""
    shell = 'mount -t tmpfs -o "$0" none "$1" || exit 77; shift; exec "$@"'
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no program to make a file system with")
    own = [] if _is_root() else ["--map-root-user"]
    done = subprocess.run(
        [unshare, *own, "--mount", "sh", "-c", shell, options, str(folder), sys.executable, "-c", code,
         json.dumps([*PATHS, str(folder), *arguments])],
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"no file system may be made here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def _is_root() -> bool:
    import os

    return hasattr(os, "geteuid") and os.geteuid() == 0


_FULL = """
import json, sys
*path, folder, kind, other = json.loads(sys.argv[1])
sys.path[:0] = path
from pathlib import Path
from ivjoin import Spill, SymmetricHashJoin
from memory.spilled import goes_on, question_of, schema_of
schema = schema_of(kind)
op = SymmetricHashJoin(schema, schema, **question_of(kind), memory_limit=60_000, when_full=Spill(folder))
print(goes_on(op, kind, 30, Path(other), "No space left on device"))
"""


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_file_system(kind: str, tmp_path: Path) -> None:
    small, other = tmp_path / "small", tmp_path / "other"
    small.mkdir()
    other.mkdir()
    assert int(_private(small, "size=600k", _FULL, kind, str(other))) == 1


_READ_ONLY = """
import json, sys
*path, folder = json.loads(sys.argv[1])
sys.path[:0] = path
from ivjoin import Spill, SymmetricHashJoin
from memory.spilled import question_of, schema_of
schema = schema_of("key")
try:
    SymmetricHashJoin(schema, schema, **question_of("key"), memory_limit=60_000, when_full=Spill(folder))
except Exception as e:
    print(type(e).__name__, e)
"""


@pytest.mark.slow
def test_a_read_only_file_system(tmp_path: Path) -> None:
    said = _private(tmp_path, "ro,size=1m", _READ_ONLY)
    assert said.startswith("OptionError the folder of Spill is ")
    assert "where no file can be written (Read-only file system); name another folder" in said


def test_a_folder_that_may_not_be_written_to(tmp_path: Path) -> None:
    """Without a file system of one's own; who may do all is not stopped by a mode."""
    tmp_path.chmod(0o555)
    if _is_root():
        pytest.skip("a mode does not stop this user")
    with pytest.raises(IvjoinError, match="where no file can be written .*name another folder"):
        SymmetricHashJoin(SCHEMA, SCHEMA, **question_of("key"), memory_limit=60_000, when_full=Spill(tmp_path))


_ELSEWHERE = """
import json, sys
*path, blob, kind = json.loads(sys.argv[1])
sys.path[:0] = path
from pathlib import Path
from ivjoin import Spill, SymmetricHashJoin
from memory.spilled import pushed, rows_of
op = SymmetricHashJoin.restore(Path(blob).read_bytes())
got = pushed(op, kind, range(12, 20)) + rows_of(op.finish())
print(json.dumps(sorted(got.items())))
"""


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_is_enough_for_another_process(kind: str, tmp_path: Path) -> None:
    """The process that spilled has ended, and its files and folder with it."""
    folder, blob = tmp_path / "spill", tmp_path / "blob"
    folder.mkdir()
    schema = schema_of(kind)
    op = SymmetricHashJoin(schema, schema, **question_of(kind), memory_limit=60_000, when_full=Spill(folder))
    got = pushed(op, kind, range(12))
    assert op.metrics.spilled_rows > 0
    blob.write_bytes(op.snapshot())
    del op
    folder.rmdir()
    asked = json.dumps([*PATHS, str(blob), kind])
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, asked], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert got + Counter(dict(json.loads(done.stdout))) == whole(kind, 20)


_KILLED = """
import json, os, sys
*path, folder = json.loads(sys.argv[1])
sys.path[:0] = path
from ivjoin import Spill, SymmetricHashJoin
from memory.spilled import pushed, question_of, schema_of
schema = schema_of("key")
op = SymmetricHashJoin(schema, schema, **question_of("key"), memory_limit=60_000, when_full=Spill(folder))
pushed(op, "key", range(12))
assert op.metrics.spilled_bytes > 0
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    asked = json.dumps([*PATHS, str(tmp_path)])
    done = subprocess.run([sys.executable, "-c", _KILLED, asked], check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert not list(tmp_path.iterdir())
