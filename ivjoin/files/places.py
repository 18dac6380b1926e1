"""Locate files: turn a path, several paths, a pattern, a folder or a URI into names in an Arrow file system."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ivjoin.errors import MissingPackageError, named
from ivjoin.files.atomic import FileError

__all__ = [
    "PATTERN", "fsspec_of", "is_hidden", "is_place", "leaves", "local_file", "pattern_of", "places", "scheme_of",
    "system_of",
]

PATTERN = "*?["
_THIS_MACHINE = re.compile(r"\Afile://(localhost)?(?=/)", re.IGNORECASE)  # RFC 8089; Arrow reads file:/// alone


def is_place(source: Any) -> bool:
    """Return whether a value names files: a path, or a list of paths."""
    if isinstance(source, (list, tuple)):
        return bool(source) and all(isinstance(s, (str, os.PathLike)) for s in source)
    return isinstance(source, (str, os.PathLike))


def local_file(source: Any) -> str | None:
    """Return the path of a single file on this machine; None for anything else."""
    if isinstance(source, (list, tuple)):
        return local_file(source[0]) if len(source) == 1 else None
    path = str(os.fspath(source))
    there = "\0" not in path and "://" not in path and not os.path.isdir(path)
    return path if there and (os.path.exists(path) or not any(c in path for c in PATTERN)) else None


def places(source: Any) -> tuple[fs.FileSystem, list[str], str | None]:
    """Return the file system, the names of the files in order, and the common folder, if one was given.

    FileError if a file does not exist, or its file system is not available.
    """
    given = [str(os.fspath(s)) for s in (source if isinstance(source, (list, tuple)) else [source])]
    systems, names, folders = [], [], []
    for text in given:
        system, path = system_of(text)
        systems.append(system)
        found, folder = _found(system, path, text)
        names += found
        folders.append(folder)
    if any(not s.equals(systems[0]) for s in systems[1:]):
        raise FileError(f"{named(given)} are in several file systems; use one file system for each input")
    return systems[0], names, folders[0] if len(given) == 1 else None


def pattern_of(source: Any) -> str | None:
    """Return the pattern of a path or URI as a name in its file system, or None."""
    given = source[0] if isinstance(source, (list, tuple)) and len(source) == 1 else source
    if isinstance(given, (list, tuple)) or not any(c in str(os.fspath(given)) for c in PATTERN):
        return None
    path = system_of(str(os.fspath(given)))[1]
    return None if os.path.exists(path) else path


def leaves(name: str, grows: str) -> bool:
    """Return whether a local file is a link to a place outside a folder, or outside a pattern's fixed part."""
    base = os.path.realpath(re.split(r"[*?\[]", grows, maxsplit=1)[0])
    while not os.path.isdir(base):
        base = os.path.dirname(base)
    return not os.path.realpath(name).startswith(os.path.join(base, ""))


def system_of(text: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the name in it; FileError if it is not available."""
    if "://" not in text:
        return fs.LocalFileSystem(), text
    try:
        system, path = fs.FileSystem.from_uri(_THIS_MACHINE.sub("file://", text))
    except pa.ArrowInvalid:
        return _by_fsspec(text)
    except OSError as e:
        raise FileError(f"cannot read {named(text)}: {str(e).splitlines()[0].rstrip('.')}") from e
    return system, path


def _by_fsspec(text: str) -> tuple[fs.FileSystem, str]:
    try:
        system, path = fsspec_of(text)
    except ModuleNotFoundError as e:
        scheme = scheme_of(text)
        raise MissingPackageError(
            f"cannot read {named(text)}: {scheme}:// needs the package fsspec (pip install fsspec), with what it needs "
            f"for {scheme}"
        ) from e
    except (ValueError, ImportError) as e:
        raise FileError(f"cannot read {named(text)} by fsspec: {e}") from e
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def fsspec_of(text: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URI, with its own settings, and the name in it, or raise ImportError."""
    from fsspec.core import url_to_fs

    return url_to_fs(text)


def scheme_of(text: str) -> str:
    """Return the part before ``://``; empty for a path."""
    return text.partition("://")[0] if "://" in text else ""


def _found(system: fs.FileSystem, path: str, text: str) -> tuple[list[str], str | None]:
    if "\0" in path:
        raise FileError(f"cannot read {named(text)}: a name cannot contain the character NUL")
    local = isinstance(system, fs.LocalFileSystem)
    try:
        info = system.get_file_info(path)
        if info.type is fs.FileType.File or (info.type is fs.FileType.Unknown and not local):
            return [path], None
        if info.type is fs.FileType.Directory:
            inside = [i.path for i in system.get_file_info(fs.FileSelector(path, recursive=True)) if i.is_file]
            names = sorted(n for n in inside if not is_hidden(n, path))
            if not names:
                raise FileError(f"cannot read {named(text)}: the folder contains no files")
            return names, path
        names = _matching(system, path, local) if any(c in path for c in PATTERN) else []
    except FileError:
        raise
    except UnicodeError as e:
        raise FileError(f"cannot read {named(text)}: a name is not UTF-8") from e
    except OSError as e:
        # For local files, Arrow's message repeats the whole path.
        said = os.strerror(e.errno) if local and e.errno else str(e).splitlines()[0].rstrip(".")
        raise FileError(f"cannot read {named(text)}: {said}") from e
    if names:
        return names, None
    what = "no file matches it" if any(c in path for c in PATTERN) else "there is no such file"
    raise FileError(f"cannot read {named(text)}: {what}")


def _matching(system: fs.FileSystem, path: str, local: bool) -> list[str]:
    if local:
        return sorted(n for n in glob.glob(path, recursive=True) if Path(n).is_file())
    fixed = path[: min(path.index(c) for c in PATTERN if c in path)].rpartition("/")[0]
    inside = system.get_file_info(fs.FileSelector(fixed, recursive=True))
    return sorted(i.path for i in inside if i.is_file and fnmatchcase(i.path, path))


def is_hidden(name: str, folder: str) -> bool:
    """Return whether a file of a folder is ignored: a part of its name begins with a dot or an underscore."""
    parts: Sequence[str] = Path(os.path.relpath(name, folder)).parts
    return any(p.startswith((".", "_")) for p in parts)
