"""Write the log of a file sink in Spark's format. It lists the files of a folder that are complete micro-batches.

::

    _spark_metadata/0 ... 8      v1, then a line of JSON for each file of the micro-batch
    _spark_metadata/9.compact    the lines of all micro-batches so far, at regular intervals
    _spark_metadata/10 ...
    _spark_metadata/.query       the query that owns the log; a micro-batch without rows has no line to name it

If a folder has such a log, Spark reads only the files that it lists, in batches and as a stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlparse

from ivjoin.errors import IvjoinError
from ivjoin.spark.sink.layout import SUFFIXES, unique

__all__ = ["SinkLog", "published_files"]

_FOLDER = "_spark_metadata"
_VERSION = "v1"
_COMPACT = ".compact"
_QUERY = ".query"


class SinkLog:
    """The log of a folder, with a ``.compact`` file after each ``compact_interval`` micro-batches.

    Until the first such file exists, the session that reads the log needs the same setting.
    """

    def __init__(self, folder: str, compact_interval: int) -> None:
        self._folder = Path(folder, _FOLDER)
        self._interval = compact_interval

    @staticmethod
    def stands_in(folder: str | os.PathLike[str]) -> bool:
        return Path(folder, _FOLDER).is_dir()

    def holds(self, batch: int, query: str) -> bool:
        """Return whether a micro-batch is in the log; refuse the log of another query."""
        latest = max(_numbers(self._folder), default=-1)
        whose = self._query()
        if whose not in (None, query) or (whose is None and latest >= batch and not self._may_be(batch, query, latest)):
            raise IvjoinError(
                f"the folder {str(self._folder.parent)!r} contains the output of another query, or of the same one "
                "before its checkpoint was removed; with partition_by or file_rows each query and checkpoint has "
                "a folder of its own"
            )
        if latest < batch - 1 and _all_lines(self._folder, latest):
            raise IvjoinError(
                f"the log {str(self._folder)!r} ends with micro-batch {latest}, and this one is {batch}: those "
                "between were written elsewhere, or removed; start with a new folder and a new checkpointLocation"
            )
        return latest >= batch

    def _may_be(self, batch: int, query: str, latest: int) -> bool:
        """Return whether a micro-batch is the query's in a log without an owner, such as a log of Spark's sink.

        A query that used Spark's sink before may find its last micro-batch there, but no micro-batch when it starts.
        """
        path = self._path(batch)
        names = [os.path.basename(urlparse(line["path"]).path) for line in (_lines(path) if path.exists() else [])]
        ours = [name for name in names if name.startswith(f"part-{batch:08d}-")]
        return all(query in name for name in ours) if ours else batch == latest > 0

    def add(self, batch: int, query: str, paths: Sequence[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._query() is None:
            self._write(self._folder / _QUERY, query)
        # A query that had another sink begins in the middle, and Spark expects every earlier number.
        for earlier in range(batch // self._interval * self._interval - 1, batch):
            if earlier >= 0 and not self._path(earlier).exists():
                self._put(earlier, [])
        lines: list[Mapping[str, object]] = [_line(path) for path in paths]
        if _is_compact(batch, self._interval):
            lines = [*_all_lines(self._folder, batch - 1), *lines]
        self._put(batch, lines)

    def _put(self, batch: int, lines: Sequence[Mapping[str, object]]) -> None:
        text = "\n".join([_VERSION, *(json.dumps(line, separators=(",", ":")) for line in lines)])
        self._write(self._path(batch), text)

    def _write(self, path: Path, text: str) -> None:
        partial = self._folder / f".{unique(path.stem)}.tmp"
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)

    def _query(self) -> str | None:
        with suppress(FileNotFoundError):
            return (self._folder / _QUERY).read_text(encoding="utf-8")
        return None

    def _path(self, batch: int) -> Path:
        return self._folder / (f"{batch}{_COMPACT}" if _is_compact(batch, self._interval) else str(batch))


def _is_compact(batch: int, interval: int) -> bool:
    return (batch + 1) % interval == 0


def _line(path: str) -> dict[str, object]:
    status = os.stat(path)
    return {
        "path": Path(path).absolute().as_uri(), "size": status.st_size, "isDir": False,
        "modificationTime": int(status.st_mtime * 1000), "blockReplication": 1, "blockSize": 33_554_432,
        "action": "add",
    }


def _lines(path: Path) -> list[dict[str, str]]:
    version, *lines = path.read_text(encoding="utf-8").split("\n")
    if version != _VERSION:
        raise IvjoinError(f"the log file {str(path)!r} is of version {version!r}; expected {_VERSION!r}")
    return [json.loads(line) for line in lines if line]


def _numbers(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    named = {p.name.removesuffix(_COMPACT): p for p in folder.iterdir()}
    return {int(name): p for name, p in named.items() if name.isdecimal()}


def _all_lines(folder: Path, until: int) -> list[dict[str, str]]:
    """Return every file of the micro-batches up to the given one, starting with the last compact log."""
    logs = {n: p for n, p in _numbers(folder).items() if n <= until}
    begin = max((n for n, p in logs.items() if p.name.endswith(_COMPACT)), default=0)
    return [line for n in sorted(logs) if n >= begin for line in _lines(logs[n])]


def published_files(path: str | os.PathLike[str]) -> list[str]:
    """Return the files of a folder that are complete micro-batches, for readers that do not know Spark's log.

    Parameters
    ----------
    path : str or path
        A folder that :func:`ivjoin.spark.write_stream` or Spark's own file sink has written.

    Returns
    -------
    list of str
        Paths in the order of the micro-batches. If the folder has no log, all Parquet and Arrow files, because each of
        them contains one or more complete micro-batches.

    Raises
    ------
    IvjoinError
        If the folder does not exist.

    Examples
    --------
    >>> pyarrow.dataset.dataset(published_files("out"), partitioning="hive")  # doctest: +SKIP
    """
    folder = Path(path)
    if not folder.is_dir():
        raise IvjoinError(f"path is {str(folder)!r}; expected a folder that write_stream writes")
    if SinkLog.stands_in(folder):
        log = folder / _FOLDER
        return [unquote(urlparse(line["path"]).path) for line in _all_lines(log, max(_numbers(log), default=-1))]
    found = (p for p in folder.iterdir() if p.suffix in SUFFIXES.values() and p.name[:1] not in "._" and p.is_file())
    return sorted(map(str, found))
