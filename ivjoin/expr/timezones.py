"""The time zone of a call. Without one, times with a zone cannot be compared with times without a zone."""

from __future__ import annotations

from collections.abc import Iterable

from ivjoin.errors import ConditionError
from ivjoin.expr import ops
from ivjoin.expr.literals import zone_named
from ivjoin.expr.nodes import Node, columns_of, walk

__all__ = ["UnstatedZone", "read_in_utc", "refuse_mixed", "zone_of_call"]

_UTC = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "UT", "+00:00"})


class UnstatedZone(str):
    """The zone UTC of a call without a ``timezone`` argument."""

    __slots__ = ()


def zone_of_call(timezone: str | None) -> str:
    """Return the zone of local times for a call. Raise ConditionError if the zone is unknown."""
    if timezone is None:
        return UnstatedZone("UTC")
    zone_named(timezone)
    return timezone


def refuse_mixed(a: Node, b: Node, zone: str) -> None:
    """Raise ConditionError if a time with a zone meets a time without one, and the call has no ``timezone``."""
    mixed = a.type.kind == b.type.kind == "timestamp" and bool(a.type.tz) != bool(b.type.tz)
    if not mixed or not isinstance(zone, UnstatedZone):
        return
    sides = [
        [c for c in walk(n) if c.op in ("column", ops.FIELD) and c.type.kind == "timestamp"
         and bool(c.type.tz) == bool(n.type.tz)] for n in (a, b)
    ]
    if not all(sides):
        return
    (local, *_), (instant, *_) = sides if b.type.tz else sides[::-1]
    example = "UTC" if instant.type.tz in _UTC else instant.type.tz
    raise ConditionError(
        f"{local} is {local.type}, without a time zone, and {instant} is {instant.type}: they cannot be compared. Give "
        f"timezone= (--timezone), the zone of {local}, such as timezone='{example}', or convert one of the two columns "
        "in its input so that both have a zone or neither has"
    )


def read_in_utc(roots: Iterable[Node]) -> tuple[Node, str] | None:
    """Find an expression that reads the local time of a column with a zone other than UTC. Return it with the zone."""
    for n in walk(*roots):
        t = n.args[0].type if n.args else None
        if t is None or t.kind != "timestamp" or not t.tz or t.tz in _UTC:
            continue
        to_local = n.op == ops.CAST and (n.type.kind in ("date", "string") or (n.type.kind == t.kind and not n.type.tz))
        if (to_local or n.op in (ops.DATE_TRUNC, ops.EXTRACT, ops.TRUNC_DATE)) and columns_of(n):
            return n, t.tz
    return None
