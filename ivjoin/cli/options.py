"""Parse keys, orders with slack, and bounds of the command line into arguments of the API."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta, tzinfo
from datetime import timezone as timezone_of
from decimal import Decimal, InvalidOperation
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from ivjoin.errors import ColumnError, IvjoinError, OptionError, OrderError, came

__all__ = [
    "NAMED", "add_bounds", "add_limit", "add_param", "asked_of", "limit_of", "names", "params_of", "parse_bounds",
    "parse_keys", "parse_order", "parse_orders", "parse_pick", "parse_zone", "question_of_two", "running_of",
]  # fmt: skip

_ORDER = re.compile(
    r"(?P<expr>.+?)(?:\s+(?P<way>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?(?:\s+SLACK\s+(?P<slack>\S+))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_PICK = re.compile(
    r"\s*(?P<keep>first|last)(?:\s+(?P<k>[0-9]+))?(?P<ties>\s+with\s+ties)?\s+by\s+(?P<by>.+?)\s*",
    re.IGNORECASE | re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT|Z)?(?:(?P<sign>[+-])(?P<h>[0-9]{1,2})(?::?(?P<m>[0-9]{2}))?)?")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_SIGNED = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<e>[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_MOST_DIGITS = 310


def add_limit(command: argparse.ArgumentParser, ways: str) -> None:
    """Add the options of a memory limit. ``ways`` lists what may happen at the limit."""
    add = command.add_argument
    add("--memory-limit", metavar="BYTES", help="limit for the memory of the join, such as 512MB (default: no limit)")
    add("--when-full", default="raise", help=f"at the limit: {ways}")
    add("--spill-dir", metavar="DIR", help="folder for spilled rows (default: the folder for temporary files)")


def limit_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments that these options set."""
    from ivjoin import Shed, Spill

    given = options.memory_limit
    limit = int(given) if given is not None and given.isascii() and given.isdigit() else given
    full, spill_dir = options.when_full, options.spill_dir
    shed, shared = getattr(options, "shed", None), getattr(options, "shed_shared", False)
    needed = (("--spill-dir", spill_dir, "spill"), ("--shed", shed, "shed"), ("--shed-shared", shared, "shed"))
    for name, value, way in needed:
        if value and full != way:
            raise OptionError(f"{name} is given, but --when-full is {came(full)}; add --when-full {way}")
    if full == "spill":
        full = Spill(spill_dir)
    elif full == "shed":
        full = Shed(shed or "prob", shared=shared)
    return {"memory_limit": limit, "when_full": full}


def add_param(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="the value of :NAME in the condition",
    )  # fmt: skip


def add_bounds(command: argparse.ArgumentParser) -> None:
    for side in ("left", "right"):
        command.add_argument(
            f"--{side}-bounds", action="append", default=[], metavar="NAME=A..B",
            help=f"promised bounds of a column of {side.upper()}; repeatable",
        )  # fmt: skip


def params_of(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return the values of ``--param``: numbers, true, false, null, or else text."""
    out: dict[str, Any] = {}
    for text in options.param:
        found = NAMED.fullmatch(text.strip())
        if found is None:
            raise OptionError(f"--param is {came(text)}; expected NAME=VALUE, such as w=5")
        value = found["value"]
        number = _SIGNED.fullmatch(value)
        if value.lower() in _WORDS:
            out[found["name"]] = _WORDS[value.lower()]
        elif number is not None:
            whole = value.lstrip("+-").isdigit()
            out[found["name"]] = int(value) if whole else float(value) if number["e"] else Decimal(value)
        else:
            out[found["name"]] = value
    return out or None


def asked_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the orders, zone, parameters and idle timeout of a join of two inputs."""
    return {
        "left_order": [parse_order(text) for text in options.left_order] or None,
        "right_order": [parse_order(text) for text in options.right_order] or None,
        "timezone": parse_zone(options.timezone),
        "params": params_of(options),
        "idle_timeout": options.idle_timeout,
        "idle": options.idle,
    }


def question_of_two(options: argparse.Namespace, left: pa.Schema, right: pa.Schema) -> dict[str, Any]:
    """Return the keys, condition, type, bounds, orders, zone, parameters and idle timeout of a join of two inputs."""
    return {
        "on": parse_keys(options.on),
        "condition": options.condition,
        "how": options.how,
        "left_bounds": parse_bounds(options.left_bounds, left, options.timezone),
        "right_bounds": parse_bounds(options.right_bounds, right, options.timezone),
    } | asked_of(options)


def running_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a join that its plan does not depend on."""
    return {
        "on_late": options.on_late,
        "threads": options.threads,
        "batch_size": options.batch_size,
        "sort": options.sort,
        "columns": names(options.columns),
    } | limit_of(options)


def names(text: str | None) -> list[str] | None:
    """Return the names in ``a,b,c``."""
    return None if text is None else [n.strip() for n in text.split(",")]


def parse_keys(texts: Sequence[str]) -> list[Any] | None:
    """Return the keys of ``--on``: names, lists ``a,b``, and pairs ``left=right``.

    >>> parse_keys(["a,b", "id=user_id"])
    ['a', 'b', ('id', 'user_id')]
    """
    keys: list[Any] = []
    for name in (part.strip() for text in texts for part in text.split(",")):
        left, paired, right = (p.strip() for p in name.partition("="))
        if not left or (paired and not right):
            raise ColumnError(f"a key of --on is {came(name)}; expected a column name, or left=right")
        keys.append((left, right) if paired else name)
    return keys or None


def parse_pick(text: str) -> Any:
    """Return the pick of ``first|last [k] [with ties] by EXPR[, EXPR]``, or raise OptionError.

    >>> parse_pick("last 3 with ties by r.ts, greatest(l.x, r.x)")
    Pick(by=['r.ts', 'greatest(l.x, r.x)'], keep='last', k=3, ties='all')
    """
    from ivjoin import Pick

    found = _PICK.fullmatch(text)
    if found is None:
        raise OptionError(
            f"pick is {came(text)}; expected [first|last] [k] [with ties] by EXPR, such as 'first 3 by abs(l.x - r.x)'"
        )
    keep: Literal["first", "last"] = "first" if found["keep"].lower() == "first" else "last"
    by = _split_by(found["by"])
    return Pick(by if len(by) > 1 else by[0], keep, int(found["k"] or 1), "all" if found["ties"] else "any")


def _split_by(text: str) -> list[str]:
    """Split at commas outside parentheses and quotes."""
    out, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"`":
            quote = c
        elif c in "()":
            depth += 1 if c == "(" else -1
        elif c == "," and not depth:
            out.append(text[start:i].strip())
            start = i + 1
    return [*out, text[start:].strip()]


def parse_order(text: str) -> Any:
    """Return the :class:`ivjoin.Order` of ``EXPR [DESC] [NULLS FIRST|LAST] [SLACK n]``.

    The slack is a number, or a length of time such as ``500ms``, ``10s``, ``5min``, ``2h``, ``1d``. Otherwise raise
    OrderError.
    """
    from ivjoin import Order

    found = _ORDER.fullmatch(text.strip())
    if found is None:
        raise OrderError("an order is empty; expected EXPR [DESC] [NULLS FIRST|LAST] [SLACK n]")
    nulls: Literal["first", "last"] | None = None
    if found["nulls"]:
        nulls = "first" if found["nulls"].upper() == "FIRST" else "last"
    descending = (found["way"] or "").upper() == "DESC"
    return Order(found["expr"], descending=descending, slack=_slack(found["slack"]), nulls=nulls)


def parse_orders(texts: Sequence[str], known: Collection[str] | None = None) -> dict[str, list[Any]] | None:
    """Return the orders of ``ALIAS=ORDER`` by alias; IvjoinError for an alias that is not in ``known``."""
    orders: dict[str, list[Any]] = {}
    for text in texts:
        alias, equals, rest = (p.strip() for p in text.partition("="))
        if not equals or not rest or (known is not None and alias not in known):
            which = "" if known is None else f", with one of {', '.join(known)}"
            raise IvjoinError(f"--order is {came(text)}; expected ALIAS=ORDER{which}")
        orders.setdefault(alias, []).append(parse_order(rest))
    return orders or None


def _slack(text: str | None) -> int | Decimal | str | None:
    """Return a number as a number. `Order` parses the text of a duration."""
    if text is None or _NUMBER.fullmatch(text) is None:
        return text
    try:
        number = Decimal(text)
        if abs(number.adjusted()) > _MOST_DIGITS:
            raise OverflowError
        return int(text) if text.isdigit() else number
    except (InvalidOperation, OverflowError) as e:
        raise OrderError(
            f"slack is {came(text)}, which is too large; omit the order if nothing is "
            "promised"
        ) from e


def parse_zone(text: str | None) -> str | None:
    """Return the name of a time zone, unchanged; OrderError if it is unknown."""
    if text is not None:
        _zone(text)
    return text


def _zone(text: str) -> tzinfo:
    offset = _OFFSET.fullmatch(text)
    try:
        if offset and text:
            length = timedelta(hours=int(offset["h"] or 0), minutes=int(offset["m"] or 0))
            return timezone_of(-length if offset["sign"] == "-" else length)
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise OrderError(f"timezone is {came(text)}; expected a name such as UTC, Europe/Berlin or +02:00") from e


def parse_bounds(texts: Sequence[str], schema: pa.Schema, timezone: str | None) -> dict[str, tuple[Any, Any]] | None:
    """Return the bounds of ``NAME=LEAST..GREATEST``, or raise OrderError. An omitted end is open.

    Values are parsed according to ``schema``: as numbers, dates or timestamps (ISO 8601). If the column has a zone,
    timestamps without a zone are in ``timezone``.
    """
    bounds: dict[str, tuple[Any, Any]] = {}
    for text in texts:
        name, equals, span = (p.strip() for p in text.rpartition("="))
        least, dots, greatest = span.partition("..")
        if not (name and equals and dots):
            raise OrderError(f"bounds are {came(text)}; expected NAME=LEAST..GREATEST, such as k=0..6 or k=0..")
        t = schema.field(name).type if name in schema.names else None
        low, high = (_value(v.strip(), t, name, timezone) for v in (least, greatest))
        bounds[name] = (low, high)
    return bounds or None


def _value(text: str, t: pa.DataType | None, name: str, timezone: str | None) -> Any:
    if not text:
        return None
    try:
        if t is not None and pa.types.is_dictionary(t):
            t = t.value_type
        if t is not None and pa.types.is_date(t):
            return date.fromisoformat(text)
        if t is not None and pa.types.is_timestamp(t):
            at = datetime.fromisoformat(text)
            return at.replace(tzinfo=_zone(timezone or "UTC")) if t.tz and at.tzinfo is None else at
        if t is not None and pa.types.is_floating(t):
            return float(text)
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else Decimal(text)
    except OrderError:
        raise
    except (ValueError, InvalidOperation) as e:
        raise OrderError(f"a bound of {name} is {came(text)}; expected a value of type {t or 'number'}") from e
