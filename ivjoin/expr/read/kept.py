"""Cache the nodes of conditions on disk, so that the next process with the same condition needs no parser.

Importing the parser takes longer than most small joins. A file's name is a digest of everything that its node depends
on:

- the text, the columns with their types, and the zone
- the versions of the parser and of Python
- every source file that takes part in reading

The content begins with a digest of itself; a damaged file is ignored. Texts with quotes are not stored, because their
constants may be private or depend on the rules of a time zone.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from ivjoin.errors import SnapshotError
from ivjoin.expr.codec import decode, encode
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.scope import Scope

__all__ = ["keep", "kept", "name_of"]

_TEXTS = 8  # texts of a process; after so many the parser is imported anyway
_LENGTH = 2_000  # characters of a text
_FILES, _FEWER = 512, 384  # most files, and how many of the last used ones remain if there are more
_DAY = 86_400.0
_DIGEST = hashlib.sha256().digest_size
_PACKAGE = Path(__file__).parents[2]
_ROOMS = ("expr", "operators", "interval/machine")  # the packages that read a text or define its node

_asked = itertools.count(1)


def name_of(text: str, scope: Scope, timezone: str) -> str | None:
    """Return the name of the file for a text; None if the text is not to be stored."""
    if next(_asked) > _TEXTS or len(text) > _LENGTH or "'" in text or '"' in text:
        return None
    stamp = _stamp()
    if stamp is None or os.environ.get("IVJOIN_KEEP_CONDITIONS") == "0":
        return None
    around = json.dumps([stamp, text, timezone, type(timezone).__name__, scope.described()])
    return hashlib.sha256(around.encode()).hexdigest()[:32]


@cache
def _stamp() -> str | None:
    """Return a digest of the versions of all readers; None if they are unknown."""
    spec = importlib.util.find_spec("sqlglot")
    found = hashlib.sha256(repr((sys.version_info, sys.implementation.name)).encode())
    try:
        assert spec is not None
        assert spec.origin is not None
        found.update(spec.origin.encode() + Path(spec.origin).with_name("_version.py").read_bytes())
        files = sorted(f for room in _ROOMS for f in (_PACKAGE / room).rglob("*.py"))
        if Path(__file__) not in files:
            return None
        for file in files:
            found.update(str(file.relative_to(_PACKAGE)).encode() + hashlib.sha256(file.read_bytes()).digest())
    except (OSError, AssertionError, ValueError):
        return None
    return found.hexdigest()


def _folders() -> list[Path]:
    """Return the folders for files, next to the compiled kernels; the first one that is writable is used."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen) / "ivjoin_conditions"]
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [_PACKAGE / "__pycache__" / "ivjoin_conditions", user / "ivjoin_conditions"]


def kept(name: str) -> Node | None:
    """Return the node in the file of a name, if the file exists and is complete."""
    for folder in _folders():
        file = folder / name
        try:
            content = file.read_bytes()
            if content[:_DIGEST] == hashlib.sha256(content[_DIGEST:]).digest():
                if time.time() - file.stat().st_mtime > _DAY:
                    with suppress(OSError):  # another user may own the folder
                        os.utime(file)
                return decode(json.loads(content[_DIGEST:]))
        except (OSError, ValueError, SnapshotError):
            continue
    return None


def keep(name: str, node: Node) -> None:
    """Write a node to the first folder that is writable, if its encoding is complete."""
    if any(n.type.kind == "opaque" for n in walk(node)):  # only the schema at hand defines an opaque type
        return
    try:
        content = json.dumps(encode(node)).encode()
        if decode(json.loads(content)) is not node:
            return
    except (AssertionError, SnapshotError, TypeError, ValueError):
        return
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".tmp", delete=False) as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(file.name).replace(folder / name)
        except OSError:
            continue
        _forget_older(folder)
        return


def _forget_older(folder: Path) -> None:
    """Delete all but the last used files, and the temporary files of writers that were stopped."""
    with suppress(OSError):
        files = list(folder.iterdir())
        if len(files) > _FILES:
            files.sort(key=lambda f: f.stat().st_mtime)
            for file in files[:-_FEWER]:
                file.unlink(missing_ok=True)
