"""Columns that folders named ``name=value`` add to the files in them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from ivjoin.errors import came, named
from ivjoin.files.atomic import FileError

__all__ = ["Partitions"]


class Partitions:
    """The hive partitions of files. Folders above the given ``folder`` are not partitions."""

    def __init__(self, names: Sequence[str], folder: str | None = None) -> None:
        self._names = list(names)
        self._inside = [name.removeprefix(folder or "") for name in names]
        found = [part.partition("=")[0] for name in self._inside for part in name.split("/")[:-1] if "=" in part]
        self._keys = list(dict.fromkeys(found))
        self._values: dict[str, pa.Array] = {}

    @classmethod
    def none(cls) -> Partitions:
        """Return no partitions, for a file that was given by its path."""
        return cls([])

    def added_to(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with the partition columns; FileError if a folder's value is not of the files' type.

        If the files also have the column, it retains its place and type, and its values come from the folders.
        Otherwise the column is int32 if all values are, or else text.
        """
        if not self._keys:
            return schema
        import pyarrow.dataset as ds

        hive = ds.partitioning(pa.schema([(key, pa.string()) for key in self._keys]), flavor="hive")
        given = [ds.get_partition_keys(hive.parse(name)) for name in self._inside]
        for key in self._keys:
            texts = pa.array([each.get(key) for each in given], pa.string())
            at = schema.get_field_index(key)
            if at < 0:
                values = texts
                with suppress(pa.ArrowInvalid):
                    values = texts.cast(pa.int32())
                schema = schema.append(pa.field(key, values.type))
            else:
                values = self._cast(key, texts, schema.field(at).type)
                schema = schema.set(at, pa.field(key, values.type))
            self._values[key] = values
        return schema

    def _cast(self, key: str, texts: pa.Array, t: pa.DataType) -> pa.Array:
        plain = t.value_type if pa.types.is_dictionary(t) else t
        for text, name in zip(texts, self._names, strict=True):
            try:
                text.cast(plain)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                raise FileError(
                    f"cannot read {named(name)}: its folder gives {came(key)} the value {came(text.as_py())}, and the "
                    f"files have that column as {plain}; rename the folders or the column"
                ) from e
        return texts.cast(plain)

    def of(self, i: int) -> dict[str, pa.Scalar]:
        """Return the values of the partition columns in the file of this number, after :meth:`added_to`."""
        return {key: values[i] for key, values in self._values.items()}

    def expression(self, i: int) -> Any:
        """Return the same as an expression of ``pyarrow.dataset``; None for a file without partitions."""
        import pyarrow.compute as pc

        whole = None
        for key, value in self.of(i).items():
            one = pc.field(key) == value if value.is_valid else pc.field(key).is_null()
            whole = one if whole is None else whole & one
        return whole
