"""Write a file that appears completely or not at all: write it next to its target, and rename it at the end."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO

from ivjoin.errors import FileError, named

__all__ = ["FileError", "Replacement", "first_line", "output_place", "reason_of", "remove_unfinished", "unwritable"]

_unfinished: set[Path] = set()
_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def output_place(path: str) -> str:
    """Return the path of an output; ``-`` for every name of standard output.

    Opening a name such as ``/dev/stdout`` would truncate the file that standard output goes to.
    """
    return "-" if path in _STANDARD_OUTPUT else path


class Replacement:
    """An open binary file whose bytes appear under ``path`` only when :meth:`commit` is called.

    Until then they are in a hidden file in the same folder, so a failure does not change an older file. A path that
    cannot be written raises FileError at once. Standard output (``-``), devices and pipes are written directly.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._partial: Path | None = None
        self._target = Path(os.path.realpath(path) if "\0" not in path else path)
        if path == "-" and sys.stdout is None:
            raise FileError("cannot write standard output: it is closed")
        self.file: IO[bytes] = sys.stdout.buffer if path == "-" else self._open()

    def _open(self) -> IO[bytes]:
        if "\0" in self.path:
            raise FileError(f"cannot write {named(self.path)}: a name cannot contain the character NUL")
        target = self._target
        if target.is_dir():
            raise FileError(f"cannot write {named(self.path)}: it is a directory; expected the name of a file")
        if not os.path.exists(self.path) and not target.parent.is_dir():
            if "://" in self.path:
                raise FileError(
                    f"cannot write {named(self.path)}: only inputs can be URIs; write to a path of this machine"
                )
            raise FileError(f"cannot write {named(self.path)}: there is no directory {str(target.parent)!r}")
        if os.path.exists(self.path) and not os.access(self.path, os.W_OK):
            raise FileError(f"cannot write {named(self.path)}: the file there is read-only")
        try:
            if os.path.exists(self.path) and not os.path.isfile(self.path):
                # A device or a pipe, such as /dev/null, must not become a plain file. A pipe such as /dev/fd/63 has no
                # other name than the one given.
                return open(self.path, "wb")
            # Recorded before it exists, because a signal may end the process at any line from here on.
            self._partial = target.parent / f".{target.name}.{secrets.token_hex(6)}.partial"
            _unfinished.add(self._partial)
            file = self._partial.open("xb")
            # The mode of the file it replaces, or the mode that open() gives.
            if target.exists():
                self._partial.chmod(target.stat().st_mode & 0o777)
        except OSError as e:
            self.abandon()
            raise unwritable(self.path, e) from e
        return file

    def pass_on(self) -> None:
        """Flush, so that the reader of a pipe receives all bytes written so far."""
        if self._partial is None:
            self.file.flush()

    def commit(self) -> None:
        """Replace an older file. Afterwards, :meth:`abandon` does nothing."""
        self.file.flush()
        if self._partial is None:
            return
        os.fsync(self.file.fileno())
        self.file.close()
        self._partial.replace(self._target)
        _unfinished.discard(self._partial)
        self._partial = None

    def abandon(self) -> None:
        """Delete the unfinished file."""
        if self._partial is not None:
            with suppress(OSError, AttributeError):
                self.file.close()
            self._partial.unlink(missing_ok=True)
            _unfinished.discard(self._partial)
            self._partial = None


def remove_unfinished() -> None:
    """Delete every file that is not committed, for a process that is about to end.

    The files stay open, because another thread may be writing to them.
    """
    for path in list(_unfinished):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def unwritable(path: str, error: Exception) -> FileError:
    """Return the error for a path that the system or Arrow cannot write to, with its message in one line."""
    name = "standard output" if path == "-" else named(path)
    return FileError(f"cannot write {name}: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """Return the message of the system or Arrow about a file, in one line."""
    return str(getattr(error, "strerror", None) or first_line(error)).rstrip(".")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its class name if the text is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
