"""Open the reader of a text file by its format, from a file system or a pipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from ivjoin.errors import named
from ivjoin.files.text.blocks import is_pipe, opened_pipe
from ivjoin.files.text.dialects import Csv, Dialect, Json

if TYPE_CHECKING:
    from ivjoin.files.text.reading import Text

__all__ = ["open_text"]


def open_text(path: str, kind: str, dialect: Dialect | None = None, system: Any = None) -> Text:
    """Open a text and infer the types of its columns; FileError if the first rows cannot be read.

    ``path`` is a file in ``system`` (by default this machine's), perhaps compressed, a pipe, or ``-`` for standard
    input. ``kind`` is ``"csv"`` or ``"json"``.
    """
    name = "standard input" if path == "-" else named(path)
    live = system is None and is_pipe(path)

    def opened() -> Any:
        if live:
            return opened_pipe(path)
        return (system or fs.LocalFileSystem()).open_input_stream(path, compression="detect")

    return _reader(name, path, kind, dialect, opened, live)


def _reader(
    name: str, path: str, kind: str, dialect: Dialect | None, opened: Callable[[], Any], live: bool
) -> Text:
    if kind == "json":
        from ivjoin.files.text.arrays import ObjectLines
        from ivjoin.files.text.jsons import JsonText

        json = dialect if isinstance(dialect, Json) else Json()
        return JsonText(name, lambda: ObjectLines(opened()), live, json.schema)
    from ivjoin.files.text.csvs import CsvText

    inner = path.lower().removesuffix(".gz").removesuffix(".zst").removesuffix(".bz2").removesuffix(".lz4")
    csv = dialect if isinstance(dialect, Csv) else Csv()
    bed = inner.endswith(".bed")
    return CsvText(name, opened, live, csv, "\t" if bed or inner.endswith(".tsv") else ",", bed)
