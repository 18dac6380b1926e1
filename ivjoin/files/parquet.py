"""Open Parquet files with the settings of this package, and read columns of row groups at once or by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.files.atomic import FileError

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

__all__ = ["dataset_format", "open_parquet", "parquet_batches", "read_row_groups", "refuse_wrapped", "with_int96"]

# pyarrow reads so many bytes of a column at a time. By default it reads all columns of all row groups ahead and keeps
# them until the reader is closed. A caller who reads batch by batch would have the whole compressed file in memory.
_READ_BYTES = 1 << 18
# INT96 timestamps, which Spark and Hive write, cover more years than nanoseconds do. By default pyarrow reads them as
# nanoseconds, and 9999-12-31 wraps to 1816.
_INT96_UNIT = "us"


def open_parquet(file: Any, footer: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a Parquet file by its path, or from a file object; ``footer``: its metadata, if they were read before."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(
        file, metadata=footer, buffer_size=_READ_BYTES, pre_buffer=False, coerce_int96_timestamp_unit=_INT96_UNIT
    )


def dataset_format(near: bool) -> ds.ParquetFileFormat:
    """Return the same settings for a dataset. ``near`` states whether its files are on this machine."""
    import pyarrow.dataset as ds

    # the latency of a remote store is worth the memory of reading ahead
    ahead: dict[str, Any] = {"use_buffered_stream": True, "buffer_size": _READ_BYTES, "pre_buffer": False}
    return ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit=_INT96_UNIT),
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(
            arrow_extensions_enabled=True, **(ahead if near else {})
        ),
    )


def parquet_batches(
    file: pq.ParquetFile, rows: int, groups: Sequence[int] | None, names: Sequence[str] | None, alone: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups, or of all, in batches of ``rows`` at most with the columns ``names``.

    ``alone``: the calling thread decodes all columns.
    """
    chosen = list(range(file.num_row_groups)) if groups is None else list(groups)
    if not sum(file.metadata.row_group(g).num_rows for g in chosen):  # older pyarrow fails without row groups
        return
    columns = None if names is None else list(names)
    for batch in file.iter_batches(batch_size=rows, row_groups=chosen, columns=columns, use_threads=not alone):
        yield batch if columns is None else batch.select(columns)


def read_row_groups(
    path: str, groups: Sequence[int], names: Sequence[str] | None, footer: pq.FileMetaData, threads: bool
) -> pa.Table:
    """Read row groups of a file at once, which makes fewer copies of their rows than reading by batch.

    ``threads``: Arrow's threads decode columns at the same time.
    """
    columns = None if names is None else list(names)
    with open_parquet(path, footer) as file:
        table = file.read_row_groups(list(groups), columns=columns, use_threads=threads)
    return table if columns is None else table.select(columns)


def _has_int96(metadata: pq.FileMetaData) -> list[str]:
    schema = metadata.schema
    return [schema.column(i).path for i in range(len(schema)) if schema.column(i).physical_type == "INT96"]


def refuse_wrapped(file: pq.ParquetFile) -> None:
    """Raise FileError for INT96 timestamps as nanoseconds, in which years beyond 1677 to 2262 wrap."""
    found = _has_int96(file.metadata)
    if found and any(_holds_nanoseconds(field.type) for field in file.schema_arrow):
        raise FileError(
            f"the ParquetFile reads the INT96 timestamps of {found[0]!r} as nanoseconds, which wrap outside of the "
            "years 1677 to 2262; pass the path of the file, or open it with coerce_int96_timestamp_unit='us'"
        )


def _holds_nanoseconds(t: pa.DataType) -> bool:
    if pa.types.is_timestamp(t):
        return bool(t.unit == "ns")
    return any(_holds_nanoseconds(t.field(i).type) for i in range(t.num_fields))


def with_int96(dataset: ds.FileSystemDataset) -> ds.FileSystemDataset:
    """Return the dataset of a caller so that its INT96 timestamps are microseconds, as of every file opened here."""
    import pyarrow.dataset as ds

    if dataset.format.read_options.coerce_int96_timestamp_unit != "ns":
        return dataset
    parts = list(dataset.get_fragments())
    if not parts or not _has_int96(parts[0].metadata):
        return dataset
    made = dataset_format(getattr(dataset.filesystem, "type_name", "") == "local")
    again = [
        made.make_fragment(p.path, p.filesystem, p.partition_expression, row_groups=[g.id for g in p.row_groups])
        for p in parts
    ]
    before, after = parts[0].physical_schema, again[0].physical_schema
    fields = [
        after.field(f.name) if f.name in before.names and before.field(f.name).equals(f) else f for f in dataset.schema
    ]
    return ds.FileSystemDataset(
        again, pa.schema(fields, dataset.schema.metadata), made, dataset.filesystem, dataset.partition_expression
    )
