"""A row of every Spark type, with the values that plain pandas columns would change."""

from __future__ import annotations

DDL = (
    "k long, o long, big long, tiny tinyint, flag boolean, f float, d double, dec decimal(38,10), small decimal(9,2), "
    "s string, raw binary, day date, ts timestamp, local timestamp_ntz, span interval day to second, "
    "arr array<timestamp>, st struct<a: long, b: struct<c: string>>, m map<string, array<long>>, nothing array<string>"
)

# One expression a column, by the row number `id`; nulls in every third row.
VALUES = {
    "k": "id % 3",
    "o": "id",
    "big": "9007199254740993 + id",
    "tiny": "CAST(id AS TINYINT)",
    "flag": "id % 2 = 0",
    "f": "CAST('NaN' AS FLOAT)",
    "d": "CAST(-0.0 AS DOUBLE)",
    "dec": "CAST('12345678901234567890123456.0123456789' AS DECIMAL(38,10))",
    "small": "CAST(id AS DECIMAL(9,2)) / 100",
    "s": "concat('\\u00e4\\ud83d\\ude00', id)",
    "raw": "X'00ff00'",
    "day": "DATE '0001-01-01' + CAST(id AS INT)",
    "ts": "TIMESTAMP '3000-01-01 00:00:00.000001Z'",
    "local": "TIMESTAMP_NTZ '1677-01-01 00:00:00.123456'",
    "span": "INTERVAL '-1 02:03:04.000005' DAY TO SECOND",
    "arr": "array(TIMESTAMP '1900-01-01 00:00:00Z', NULL)",
    "st": "named_struct('a', 9007199254740993 + id, 'b', named_struct('c', 'x'))",
    "m": "map('a', array(1L, NULL), 'b', NULL)",
    "nothing": "CAST(NULL AS ARRAY<STRING>)",
}


def select_list() -> list[str]:
    """Expressions over ``spark.range(n)`` that give the columns of ``DDL``."""
    types = dict(part.strip().split(" ", 1) for part in _parts(DDL))
    out = []
    for name, value in VALUES.items():
        cast = f"CAST({value} AS {types[name]})"
        keep = name in ("k", "o")
        out.append(f"{cast} AS {name}" if keep else f"IF(id % 3 = 2, NULL, {cast}) AS {name}")
    return out


def _parts(ddl: str) -> list[str]:
    """The columns of a DDL string: cut at commas outside brackets."""
    out, depth, piece = [], 0, ""
    for c in ddl:
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            out.append(piece)
            piece = ""
        else:
            piece += c
    return [*out, piece]
