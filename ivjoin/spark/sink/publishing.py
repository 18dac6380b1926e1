"""Publish a micro-batch in a folder of Parquet or Arrow files, so that all of its rows become visible together, once.

::

    out/part-00000012-<query>.parquet            a micro-batch is a file; renaming it publishes it
    out/_staging/<checkpoint>/...                files that workers wrote; readers ignore this folder

    out/day=2024-01-01/part-00000012-<query>-0.parquet      with partition_by or file_rows it is several files:
    out/day=2024-01-02/part-00000012-<query>-1.parquet      renamed one after the other, and made one by the log
    out/_spark_metadata/12                                  that Spark's own file sink writes, and its readers follow

The name of a file contains the query and the micro-batch. A repeated micro-batch finds its published files by name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from ivjoin.errors import IvjoinError
from ivjoin.spark.sink.layout import SUFFIXES, Layout, hive_folders, unique
from ivjoin.spark.sink.parts import Part
from ivjoin.spark.sink.sinklog import SinkLog

__all__ = ["Folder", "inline_rows"]


def inline_rows(parts: Sequence[Part]) -> list[pa.RecordBatch]:
    return [batch for p in parts if p.rows for batch in pa.ipc.open_stream(p.rows)]


class Folder:
    """Publish the files of a Parquet or Arrow sink, on the driver.

    After each ``compact_interval`` micro-batches, the whole log is written again.
    """

    def __init__(self, layout: Layout, compact_interval: int = 10) -> None:
        self._layout = layout
        self._log = SinkLog(layout.folder, compact_interval) if layout.logged else None
        self._first = True

    def check(self) -> None:
        """Create the folder if necessary. Refuse a folder if readers would not see its old files with the new ones."""
        folder = Path(self._layout.folder)
        if folder.exists() and not folder.is_dir():
            raise IvjoinError(f"path is {str(folder)!r}, which is a file; expected a folder, or the name of a new one")
        folder.mkdir(parents=True, exist_ok=True)
        others = {suffix for suffix in SUFFIXES.values() if suffix != self._layout.suffix}
        if (folder / "_delta_log").is_dir() or any(next(folder.rglob(f"part-*{it}"), None) for it in others):
            raise IvjoinError(
                f"the folder {str(folder)!r} has files of another format than {self._layout.format!r}; write to "
                "another folder, or in the format of those files"
            )
        if self._log is None:
            if SinkLog.stands_in(folder):
                raise IvjoinError(
                    f"the folder {str(folder)!r} has the log of a file sink, and readers would see only the "
                    "logged files; write to another folder, or with partition_by or file_rows as before"
                )
        elif not SinkLog.stands_in(folder) and any(folder.rglob(f"part-*{self._layout.suffix}")):
            raise IvjoinError(
                f"the folder {str(folder)!r} contains files that no log names, and readers would not see them after "
                "partition_by or file_rows has created a log; write to another folder"
            )

    def publish(self, query: str, batch: int, parts: Sequence[Part]) -> None:
        """Make the rows of a query's micro-batch visible, unless they are visible already."""
        if self._log is None:
            self._publish_one(query, batch, parts)
        elif not self._log.holds(batch, query):
            self._publish_logged(query, batch, parts)
        self._first = False
        # Delete the files that other attempts at this micro-batch, or an earlier run, have left.
        shutil.rmtree(self._layout.staging, ignore_errors=True)
        with suppress(OSError):  # it still contains another query's staging folder
            os.rmdir(os.path.dirname(self._layout.staging))

    def _publish_one(self, query: str, batch: int, parts: Sequence[Part]) -> None:
        target = os.path.join(self._layout.folder, _name(query, batch) + self._layout.suffix)
        if os.path.exists(target):
            return
        staged = self._staged(parts)
        if not staged:
            return
        whole = staged[0] if len(staged) == 1 else self._joined(staged)
        _flush(whole)
        os.rename(whole, target)

    def _joined(self, staged: list[str]) -> str:
        folder = os.path.dirname(staged[0])
        rows = self._layout.read(staged)
        (file,) = self._layout.write(rows, folder, unique("whole") + "-{i}")
        return os.path.join(folder, file.path)

    def _publish_logged(self, query: str, batch: int, parts: Sequence[Part]) -> None:
        assert self._log is not None
        if self._first:
            # Delete files that an earlier attempt renamed before it could write the log.
            for unlogged in Path(self._layout.folder).rglob(_name(query, batch) + "-*" + self._layout.suffix):
                unlogged.unlink()
        published = []
        for i, path in enumerate(self._staged(parts)):
            below = hive_folders(os.path.relpath(path, self._layout.staging))
            target = os.path.join(self._layout.folder, below, f"{_name(query, batch)}-{i}{self._layout.suffix}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _flush(path)
            os.rename(path, target)
            published.append(target)
        self._log.add(batch, query, published)

    def _staged(self, parts: Sequence[Part]) -> list[str]:
        """Return the paths of all files of a micro-batch. Write the rows that the parts contain into files first."""
        folder = self._layout.staging
        files = [f for p in parts for f in p.files]
        rows = inline_rows(parts)
        if rows:
            files += self._layout.write(rows, folder, unique("driver") + "-{i}")
        return [os.path.join(folder, f.path) for f in files]


def _name(query: str, batch: int) -> str:
    return f"part-{batch:08d}-{query}"


def _flush(path: str) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
