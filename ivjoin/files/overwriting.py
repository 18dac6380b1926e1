"""Find the local files of an input, and refuse an output that would replace one of them."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pyarrow import fs

from ivjoin.errors import named
from ivjoin.files.atomic import FileError
from ivjoin.files.places import PATTERN, is_hidden

__all__ = ["InputFiles", "input_files", "refuse_overwriting", "same_place", "scanned_files"]

_STDIN, _STDOUT = "/dev/stdin", 1  # by name, and by number
_WAY_OUT = "write to another file, and move it there afterwards"
_CUT = " other source"  # a plan of polars with this text lists only the first of many files
_SCAN = re.compile(r"^\s*\w+ SCAN \[(.+?)(?:, \.\.\. \d+ other sources?)?\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of an input on this machine, by absolute paths.

    ``grows`` is a folder or pattern: a new file there is part of the input when it is opened again. ``opened``: the
    input is an open file without a known name.
    """

    names: tuple[str, ...]
    grows: str | None = None
    opened: bool = False

    def holds(self, path: str) -> bool:
        """Return whether a new file of this path would be part of the input when it is opened again."""
        if self.grows is None:
            return False
        if not any(c in self.grows for c in PATTERN) or os.path.isdir(self.grows):
            folder = os.path.realpath(self.grows)
            return _lies_in(path, folder) and not is_hidden(path, folder)
        fixed = os.path.dirname(self.grows[: min(self.grows.index(c) for c in PATTERN if c in self.grows)])
        pattern = os.path.realpath(fixed) + self.grows[len(fixed) :]
        parts, wanted = path.split(os.sep), pattern.split(os.sep)
        if "**" in wanted:
            return fnmatchcase(path, pattern)
        return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def input_files(system: Any, names: Iterable[str], grows: str | None = None) -> InputFiles | None:
    """Return the local files of an input, given an Arrow file system and names in it; None if it is not local.

    The name ``-`` is standard input.
    """
    found = [_STDIN if name == "-" else _local(system, name) for name in names]
    if not found or found[0] is None:
        return None
    return InputFiles(tuple(os.path.abspath(n) for n in found if n is not None), grows and _local(system, grows))


def scanned_files(plan: Any) -> list[InputFiles]:
    """Return the local files that a polars LazyFrame scans, and the patterns and folders that it names."""
    text = plan.explain(optimized=False)
    names = [n for listed in _SCAN.findall(text) for n in listed.split(", ")]
    given = _given_paths(plan) if _CUT in text else []
    grows = [n for n in given if any(c in n for c in PATTERN) or os.path.isdir(n)]
    names = [n.removeprefix("file://") for n in [*names, *given] if n not in grows]
    return [
        InputFiles(tuple(os.path.abspath(n) for n in names if "://" not in n)),
        *(InputFiles((), os.path.abspath(n)) for n in grows if "://" not in n),
    ]


def _given_paths(plan: Any) -> list[str]:
    """Return the paths of all scans in a polars LazyFrame, as they were given; none if this polars cannot say."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        listed = re.findall(r'"Paths":(\[.*?\])', plan.serialize(format="json"))
        return [path["inner"].removeprefix("file://") for paths in listed for path in json.loads(paths)]
    return []


def _local(system: Any, name: str) -> str | None:
    """Return the path of a file of some file system on this machine, or None."""
    if isinstance(system, fs.SubTreeFileSystem):
        return _local(system.base_fs, system.base_path + name)
    if isinstance(system, fs.PyFileSystem) and isinstance(system.handler, fs.FSSpecHandler):
        protocol = system.handler.fs.protocol
        local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)
        return os.path.abspath(name.removeprefix("file://")) if local else None
    return os.path.abspath(name) if isinstance(system, fs.LocalFileSystem) else None


def refuse_overwriting(what: str, path: str, inputs: Iterable[InputFiles | None]) -> None:
    """Raise FileError if a path (``-`` is standard output) is an input, or would be found when the input is read again.

    ``what`` describes the output, for the error.
    """
    place = same_place(path)
    if place is None:
        return
    for each in inputs:
        if each is None:
            continue
        if isinstance(place, tuple):
            for name in each.names:
                if same_place(name) == place:
                    raise FileError(f"{what} would replace the input {named(name)}; {_WAY_OUT}")
        if each.opened and path != "-" and place in _open_here():
            raise FileError(
                f"{what} would replace the file {named(path)}, which this process has open, and an input is an open "
                f"ParquetFile; {_WAY_OUT}"
            )
        target = os.path.realpath(path)
        if path != "-" and each.holds(target):
            raise FileError(
                f"{what} would become part of the input {named(each.grows)}, which is a folder or a pattern: the next "
                "join would read it; write it to another folder"
            )


def same_place(path: str) -> tuple[int, int] | str | None:
    """Return an identity of a place that does not depend on the spelling of its name; ``-`` is standard output.

    The device and number of an existing file or folder (also of redirected standard output), the path of another, and
    None for a device or a pipe.
    """
    if path == "-" and sys.stdout is None:
        return None  # its number may be another file's
    try:
        found = os.fstat(_STDOUT) if path == "-" else os.stat(path)
    except (OSError, ValueError):
        if path == "-" or "\0" in path:
            return None
        written = os.path.realpath(path)  # "x/../a.csv" is written to "a.csv" although "x" does not exist
        return path if written == path else same_place(written)
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return found.st_dev, found.st_ino
    return "-" if path == "-" else None


def _open_here() -> set[tuple[int, int]]:
    """Return device and number of each open file, on systems with /dev/fd."""
    found = set()
    with suppress(OSError):
        for number in os.listdir("/dev/fd"):
            with suppress(OSError):
                at = os.fstat(int(number))
                found.add((at.st_dev, at.st_ino))
    return found


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
