"""Folders in which each file is written once. It appears completely or not at all, and only one writer succeeds.

- A mounted folder: write under a hidden name, flush, and hard-link to the name, which fails if the name exists.
- HDFS: write under a hidden name, and rename, which fails if the name exists.
- S3, Google Cloud and Azure, through fsspec's s3fs, gcsfs or adlfs: one put on the condition that the object does not
  exist (``If-None-Match: *`` or ``ifGenerationMatch=0``).

Other stores are not supported, because they could silently lose the file of one of two writers.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from ivjoin.errors import MissingPackageError, named
from ivjoin.files.atomic import FileError, reason_of
from ivjoin.files.places import fsspec_of, scheme_of, system_of

__all__ = ["OnceFolder", "once_folder", "try_once"]

# Stores with a conditional put, by the scheme of a URI: the package, the extra that installs it, the condition.
_STORES = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs", "s3", "If-None-Match: *")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gcs", "ifGenerationMatch=0")),
    **dict.fromkeys(("abfs", "abfss", "az"), ("adlfs", "azure", "If-None-Match: *")),
}
_SAFE = "a folder that is mounted, or one on hdfs://, s3://, gs:// or abfs://"
_WAITS = (0.1, 0.4, 1.6)  # seconds before a put is tried again


class OnceFolder(Protocol):
    """A folder to which many processes write. All methods raise only OSError."""

    def names(self) -> list[str]:
        """Return the names of the files at this moment; an empty list if the folder does not exist yet."""

    def read(self, name: str) -> bytes:
        """Return the content of a file, or raise FileNotFoundError."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a file unless the name exists; return whether this call wrote it.

        False does not prove that another process wrote it. If a response was lost, an earlier attempt of this call may
        have written it.
        """

    def delete(self, name: str) -> None: ...

    def make(self) -> None:
        """Make the folder, if the file system has folders; FileExistsError if it is a file."""


class _Renamed:
    """A folder on a file system of Arrow's whose rename fails if the name exists."""

    def __init__(self, system: fs.FileSystem, path: str) -> None:
        self._system, self._path = system, path

    def names(self) -> list[str]:
        return [i.base_name for i in self._system.get_file_info(fs.FileSelector(self._path))]

    def read(self, name: str) -> bytes:
        with self._system.open_input_stream(self._named(name)) as file:
            return file.read()

    def create(self, name: str, data: bytes) -> bool:
        partial = self._named(f".{secrets.token_hex(8)}.partial")
        try:
            self._write(partial, data)
            return self._publish(partial, self._named(name))
        finally:
            with suppress(OSError):
                if self._system.get_file_info(partial).type is not fs.FileType.NotFound:
                    self._system.delete_file(partial)

    def _write(self, path: str, data: bytes) -> None:
        with self._system.open_output_stream(path) as file:
            file.write(data)

    def _publish(self, partial: str, target: str) -> bool:
        try:
            self._system.move(partial, target)
        except OSError:
            if self._system.get_file_info(target).type is fs.FileType.NotFound:
                raise
            return False
        return True

    def delete(self, name: str) -> None:
        self._system.delete_file(self._named(name))

    def make(self) -> None:
        if self._system.get_file_info(self._path).type is fs.FileType.File:
            raise FileExistsError(self._path)
        self._system.create_dir(self._path, recursive=True)

    def _named(self, name: str) -> str:
        return f"{self._path}/{name}"


class _Linked(_Renamed):
    """A folder on a mounted file system with hard links."""

    def _write(self, path: str, data: bytes) -> None:
        with open(path, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _publish(self, partial: str, target: str) -> bool:
        try:
            os.link(partial, target)
        except FileExistsError:
            return False
        return True


class _Put:
    """A folder on an object store, through fsspec."""

    def __init__(self, system: Any, path: str) -> None:
        self._system, self._path = system, path.rstrip("/")

    def names(self) -> list[str]:
        with _as_os_errors():
            self._system.invalidate_cache()  # its cached listing lacks what other processes have put since
            try:
                found = self._system.ls(self._path, detail=False)
            except FileNotFoundError:
                return []
            return [path.rstrip("/").rpartition("/")[2] for path in found]

    def read(self, name: str) -> bytes:
        try:
            with _as_os_errors():
                return self._system.cat_file(self._named(name))
        except FileNotFoundError as e:
            raise FileNotFoundError("there is no such file") from e

    def create(self, name: str, data: bytes) -> bool:
        for wait in (*_WAITS, None):
            try:
                with _as_os_errors():
                    self._system.pipe_file(self._named(name), data, mode="create")
                return True
            except FileExistsError:
                return False
            except FileNotFoundError as e:
                raise FileNotFoundError("there is no such bucket") from e
            except PermissionError:
                raise
            except OSError:
                # Not every store gives a reason for a refusal, and some report that another put of the name is under
                # way.
                with suppress(FileNotFoundError):
                    self.read(name)
                    return False
                if wait is None:
                    raise
                time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def delete(self, name: str) -> None:
        with _as_os_errors():
            self._system.rm_file(self._named(name))

    def make(self) -> None:
        pass

    def _named(self, name: str) -> str:
        return f"{self._path}/{name}"


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Convert the stores' own error classes for credentials, names and settings to OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as e:
        raise OSError(reason_of(e)) from e


def once_folder(what: str, text: str) -> OnceFolder:
    """Return the folder of a path or URI, without a request to the store; ``what`` names the argument in errors.

    FileError if no safe method writes a file there once. MissingPackageError if the store's package is not installed.
    """
    scheme, said = scheme_of(text), f"{what} is {named(text)}"
    if scheme not in _STORES:
        if scheme not in ("", "file", "hdfs", "viewfs"):
            raise FileError(f"{said}, where two writers of one file might both succeed; expected {_SAFE}")
        system, path = system_of(text)
        return _Linked(system, path) if isinstance(system, fs.LocalFileSystem) else _Renamed(system, path)
    package, extra, _ = _STORES[scheme]
    if any(c in text for c in "?#"):
        raise FileError(
            f"{said}; expected only a bucket and a folder, without ? and #: set other options of {package} in "
            "the environment or in fsspec's settings"
        )
    try:
        system, path = fsspec_of(text)
    except ImportError as e:
        raise MissingPackageError(
            f"{said}, for which this Python lacks the package {package} ({reason_of(e)}): pip install "
            f"'ivjoin[{extra}]', where the workers run, too"
        ) from e
    except Exception as e:
        raise FileError(f"{said}, which {package} cannot open ({reason_of(e)}); expected {_needed(text)}") from e
    if not path.strip("/"):
        raise FileError(f"{said}, which names no bucket; expected one, as {scheme}://bucket/folder")
    return _Put(system, path)


def try_once(what: str, text: str) -> None:
    """Check that a folder has the required properties, or raise FileError. Create it if it does not exist.

    The check writes a file under a hidden name. It writes the file again, which must fail. It then lists, reads and
    deletes the file.
    """
    folder, said = once_folder(what, text), f"{what} is {named(text)}"
    probe = f".{secrets.token_hex(8)}.partial"
    doing = "written"
    try:
        folder.make()
        if not folder.create(probe, b"{}"):
            raise OSError(f"{probe} is there already")
        second = folder.create(probe, b"[]")
        doing = "listed"
        listed = probe in folder.names()
        doing = "read"
        whole = folder.read(probe) == b"{}"
        doing = "cleared"
        folder.delete(probe)
    except FileExistsError as e:
        raise FileError(f"{said}, which is a file; expected a folder, or a new one's name") from e
    except (OSError, pa.ArrowInvalid) as e:
        raise FileError(f"{said}, which cannot be {doing} ({reason_of(e)}); expected {_needed(text)}") from e
    if second or not whole:
        told = f" ({_STORES[scheme_of(text)][2]})" if scheme_of(text) in _STORES else ""
        raise FileError(
            f"{said}, which let two writers of one file succeed despite the condition{told}; expected {_SAFE} that "
            "refuses the second writer"
        )
    if not listed:
        raise FileError(f"{said}, which did not list a file that was there; expected {_SAFE} that does")


def _needed(text: str) -> str:
    if scheme_of(text) not in _STORES:
        return "a folder that every worker can read and write"
    package = _STORES[scheme_of(text)][0]
    return f"a bucket that is there, and credentials that let {package} put, list, get and delete in it"
