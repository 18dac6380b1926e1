"""Infer types of columns of text from their first rows: times in microseconds, and numbers without loss of digits."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["inexact", "is_large", "number_type", "time_type", "with_more_digits"]

_PLAIN = re.compile(r"[+-]?(\d*)(?:\.(\d*))?")
_WHOLE = re.compile(r"-?\d+")
_SURE_DIGITS = 15  # any two numbers of so many digits are two doubles
_MOST_DIGITS = 38
_LEAST_LARGE = 2.0**53  # from here on, two whole numbers may be the same double
_TIME_OF_DAY = r"^\d\d:\d\d(:\d\d(\.\d{1,6})?)?$"


def time_type(texts: Any, of_day: bool = False) -> pa.DataType | None:
    """Return the type of texts that are all dates, timestamps or (``of_day``) times of day; None for other texts.

    Timestamps are microseconds, because a fraction may appear in a later row. Only more than six digits make them
    nanoseconds.
    """
    present = texts.drop_null()
    if not len(present) or not re.match(r"\d\d(\d\d-\d\d-\d\d|:\d\d)", present[0].as_py()):
        return None
    if present[0].as_py()[2] == ":":
        import pyarrow.compute as pc  # takes longer than a join of a few rows

        matches = of_day and pc.all(pc.match_substring_regex(present, _TIME_OF_DAY)).as_py()
        return pa.time64("us") if matches else None
    for t in (pa.date32(), *(pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC"))):
        try:
            present.cast(t)
        except pa.ArrowInvalid:
            continue
        return t
    return None


def number_type(texts: Iterable[str]) -> pa.DataType | None:
    """Return the type of numbers (with a decimal point) that are not all within int64; None if no type fits.

    The type is double if no text loses a digit. Otherwise it is uint64, or a decimal with as many digits as the texts
    have.
    """
    distinct = set(texts)
    if distinct and all(map(_WHOLE.fullmatch, distinct)):
        wholes = [int(text) for text in distinct if len(text) <= _MOST_DIGITS + 1]
        if len(wholes) < len(distinct) or max(map(abs, wholes)) >= 10**_MOST_DIGITS:
            return None
        if min(wholes) >= 0 and max(wholes) < 1 << 64:
            return pa.uint64()
        return pa.decimal128(max(len(str(abs(w))) for w in wholes), 0)
    if not any(map(inexact, distinct)):
        return pa.float64()
    digits = [_digits(text) for text in distinct]
    whole, scale = max(w for w, _ in digits), max(s for _, s in digits)
    return pa.decimal128(max(1, whole + scale), scale) if whole + scale <= _MOST_DIGITS else None


def _digits(text: str) -> tuple[int, int]:
    """Return the digits before and after the point; too many for NaN and infinity."""
    try:
        _, digits, exponent = Decimal(text).as_tuple()
    except InvalidOperation:
        exponent = "n"
    if not isinstance(exponent, int):
        return _MOST_DIGITS, _MOST_DIGITS
    return max(0, len(digits) + exponent), max(0, -exponent)


def with_more_digits(schema: pa.Schema, declared: Collection[str]) -> pa.Schema:
    """Return a schema whose decimals have capacity for more digits in later rows, except in declared columns."""
    fields = [
        f if f.name in declared or not pa.types.is_decimal128(f.type)
        else f.with_type(pa.decimal128(_MOST_DIGITS, f.type.scale))
        for f in schema
    ]  # fmt: skip
    return pa.schema(fields, metadata=schema.metadata)


def inexact(text: str) -> bool:
    """Return whether a number loses digits as a double: another number of as many decimals is the same double.

    A number with an exponent was written from a double. So was a number with more than 15 digits that is the double
    itself, rounded to as many decimals.
    """
    found = _PLAIN.fullmatch(text)
    if found is None:
        return False
    whole, decimals = (found[1] or "").lstrip("0"), found[2] or ""
    if len(whole) + len(decimals) <= _SURE_DIGITS or repr(float(text)) == text:
        return False
    written = f"{float(text):.{len(decimals)}f}".lstrip("-")
    return written != f"{whole or '0'}.{decimals}".rstrip("." if not decimals else "")


def is_large(column: Any) -> bool:
    """Return whether a column of doubles has a value in the range where whole numbers lose digits."""
    values = column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    with np.errstate(invalid="ignore"):
        large = np.abs(values) >= _LEAST_LARGE
        return bool(large.any() and np.isfinite(values[large]).any())
