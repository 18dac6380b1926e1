"""Files that the writers of ivjoin make."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ivjoin.files.formats import Sink

__all__ = ["write"]


def write(path: Path, table: pa.Table, rows: int = 2) -> Path:
    """Write a table in batches of so many rows."""
    sink = Sink(str(path), table.schema)
    for batch in table.to_batches(max_chunksize=rows):
        sink.write(batch)
    sink.commit()
    return path
