"""Linear forms of discrete expressions over exact rationals, and the boxes in which machine integers obey them.

The *value* of a node is its physical value, for a decimal divided by ``10**scale``. A form states

    value(node) = sum(coefficient * value(atom)) + c    for some c in [lo, hi]

wherever the node raises nothing and is not null. Nothing is assumed about overflow: a machine operation that does
not err gives the mathematical result, so an inequality between forms *follows* from the condition being TRUE. The
converse needs that no node errs; :func:`guard_box` finds a box of atom values in which that holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from ivjoin.expr.nodes import LEFT, Node, is_met
from ivjoin.expr.types import TICKS_PER_SECOND, Type

__all__ = ["BOTH_SIDES", "LEFT_SIDE", "RIGHT_SIDE", "Box", "Form", "Forms", "Limit", "Number", "Power", "guard_box",
           "reach", "scale_of", "size", "span"]  # fmt: skip

Number = int | Fraction
Box = dict[Node, tuple[Number, Number]]

LEFT_SIDE, RIGHT_SIDE, BOTH_SIDES = 1, 2, 3

# Local time minus UTC lies within 18 hours in java.time and zoneinfo alike, so a difference of two local times is
# within 36 hours of the difference of the instants.
_ZONE_SLACK_SECONDS = 36 * 3600


@dataclass(frozen=True, slots=True)
class Form:
    """A linear form; ``lost`` when an atom cancelled out, so that the form no longer shows where the node is null."""

    terms: Mapping[Node, Number]
    lo: Number
    hi: Number
    lost: bool = False

    @property
    def exact(self) -> bool:
        return self.lo == self.hi and not self.lost

    def scaled(self, k: Number) -> Form:
        if k == 1:
            return self
        if k == 0:
            return Form({}, 0, 0, True)
        lo, hi = (self.lo * k, self.hi * k) if k > 0 else (self.hi * k, self.lo * k)
        return Form({n: c * k for n, c in self.terms.items()}, lo, hi, self.lost)

    def plus(self, other: Form, k: Number = 1) -> Form:
        """``self + k * other``."""
        other = other.scaled(k)
        terms = dict(self.terms)
        lost = self.lost or other.lost
        for n, c in other.terms.items():
            total = terms.get(n, 0) + c
            if total:
                terms[n] = total
            else:
                del terms[n]
                lost = True
        return Form(terms, self.lo + other.lo, self.hi + other.hi, lost)

    def widened(self, below: Number, above: Number) -> Form:
        return Form(self.terms, self.lo - below, self.hi + above, self.lost)


Power = tuple[Fraction, Form, int]  # (c, a, n) is c * a**n


def size(x: Number) -> Number:
    """The absolute value, for which mypy knows a type."""
    return x if x >= 0 else -x


def scale_of(t: Type) -> int:
    """Physical units per unit of value."""
    return 10**t.scale if t.kind == "decimal" else 1


class Forms:
    """The forms and sides of the nodes of one condition, each worked out once."""

    def __init__(self) -> None:
        self._forms: dict[Node, Form | None] = {}
        self._sides: dict[Node, int] = {}

    def sides(self, node: Node) -> int:
        """Which inputs the node reads: a sum of LEFT_SIDE and RIGHT_SIDE."""
        if node not in self._sides:
            self._learn(node)
        return self._sides[node]

    def form(self, node: Node) -> Form | None:
        """The node's form; None where the node is not discrete or holds a null literal."""
        if node not in self._sides:
            self._learn(node)
        return self._forms[node]

    def is_atom(self, node: Node) -> bool:
        form = self.form(node)
        return form is not None and node in form.terms

    def _learn(self, root: Node) -> None:
        stack = [root]
        while stack:
            n = stack[-1]
            unknown = [a for a in n.args if a not in self._sides]
            if unknown:
                stack += unknown
                continue
            stack.pop()
            if n.op == "column":
                self._sides[n] = LEFT_SIDE if n.params[0] == LEFT else RIGHT_SIDE
            else:
                mask = 0
                for a in n.args:
                    mask |= self._sides[a]
                self._sides[n] = mask
            self._forms[n] = self._form_of(n) if n.type.is_discrete else None

    def _form_of(self, n: Node) -> Form | None:
        if n.op == "literal":
            value = n.params[0]
            if value is None:
                return None
            constant: Number = value if n.type.kind != "decimal" else _plain(Fraction(value, 10**n.type.scale))
            return Form({}, constant, constant)
        one_sided = self._sides[n] != BOTH_SIDES
        if one_sided and n.op == "cast" and n.type.unit != n.args[0].type.unit:
            # Times meet in the finer unit: there the other side is compared with the refined values.
            return Form({n: 1}, 0, 0)
        opened = self._open(n)
        # What one input computes with rounding is best taken as it is: an atom is exact, a widened form is not.
        if opened is None or (opened.lo != opened.hi and one_sided):
            return Form({n: 1}, 0, 0)
        return opened

    def _open(self, n: Node) -> Form | None:
        rule = _RULES.get(n.op)
        if rule is None:
            return None
        forms = []
        for a in n.args:
            f = self._forms[a]
            if f is None:
                return None
            forms.append(f)
        return rule(n, forms)

    def limits(self, roots: Iterable[Node], covered: frozenset[Node] | set[Node]) -> list[Limit]:
        """What must hold of atoms so that no node from ``roots`` down to the atoms errs, leaving out the covered nodes.

        A covered node is one that is evaluated for its own sake, so that its errors show without a guard.
        """
        out: list[Limit] = []
        stack = list(roots)
        seen: set[Node] = set()
        while stack:
            n = stack.pop()
            if n in seen or n in covered:
                continue
            seen.add(n)
            form = self.form(n)
            if form is None:
                stack.extend(n.args)
                continue
            if n in form.terms or n.op == "literal":
                continue
            lo, hi = span(n.type)
            if is_met(n):
                lo, hi = lo + 1, hi - 1
            out.append(Limit(form.terms, form.lo, lo, hi))
            stack.extend(n.args)
        return out


def _plain(x: Number) -> Number:
    """Integers as int: their arithmetic is several times faster than that of Fraction."""
    return x.numerator if isinstance(x, Fraction) and x.denominator == 1 else x


def _is_fixed_zone(n: Node) -> bool:
    return not n.params or n.params[0] in (None, "", "UTC", "Etc/UTC", "Z", "+00:00")


def _sum(n: Node, forms: list[Form]) -> Form | None:
    a, b = forms
    sign = 1 if n.op == "add" else -1
    out = a.plus(b, sign)
    t = n.type
    if t.kind == "decimal":
        if t.scale < max(x.type.scale for x in n.args):
            half = Fraction(1, 2 * 10**t.scale)
            return out.widened(half, half)
        return out
    if t.kind in ("int", "months"):
        return out
    kinds = [x.type.kind for x in n.args]
    if any(x.type.unit != n.args[0].type.unit for x in n.args) or t.kind not in ("timestamp", "duration"):
        return None
    zoned = any(x.type.tz for x in n.args) and not _is_fixed_zone(n)
    if "timestamp" not in kinds or not zoned:
        return out
    ticks = TICKS_PER_SECOND[n.args[0].type.unit]
    if kinds == ["timestamp", "timestamp"]:
        return out.widened(_ZONE_SLACK_SECONDS * ticks, _ZONE_SLACK_SECONDS * ticks)
    # Only whole days of an interval are calendar days of the zone; a shorter one is added to the instant.
    if n.args[1].op == "literal" and size(b.lo) < 86_400 * ticks:
        return out
    return None


def _neg(n: Node, forms: list[Form]) -> Form:
    return forms[0].scaled(-1)


def _mul(n: Node, forms: list[Form]) -> Form | None:
    a, b = forms
    if a.terms or a.lo != a.hi or a.lost:
        a, b = b, a
    if a.terms or a.lo != a.hi or a.lost:
        return None
    out = b.scaled(a.lo)
    if n.type.kind == "decimal" and n.type.scale < sum(x.type.scale for x in n.args):
        half = Fraction(1, 2 * 10**n.type.scale)
        return out.widened(half, half)
    return out


def _intdiv(n: Node, forms: list[Form]) -> Form | None:
    a, b = forms
    if b.terms or b.lo != b.hi or not b.lo or n.type.kind != "int" or any(x.type.kind != "int" for x in n.args):
        return None
    off = 1 - 1 / Fraction(size(b.lo))
    return a.scaled(Fraction(1) / b.lo).widened(off, off)


def _cast(n: Node, forms: list[Form]) -> Form | None:
    (f,) = forms
    source, target = n.args[0].type, n.type
    if source.kind in ("int", "decimal") and target.kind in ("int", "decimal"):
        if source.kind == "decimal" and target.kind == "int" and source.scale:
            return f.widened(1, 1)
        if source.kind == "decimal" and target.kind == "decimal" and target.scale < source.scale:
            half = Fraction(1, 2 * 10**target.scale)
            return f.widened(half, half)
        return f
    if source.kind == target.kind == "duration" or (
        source.kind == target.kind == "timestamp" and bool(source.tz) == bool(target.tz)
    ):
        k = Fraction(TICKS_PER_SECOND[target.unit], TICKS_PER_SECOND[source.unit])
        if k == 1:
            return f
        out = f.scaled(_plain(k))
        return out if k >= 1 else out.widened(1, 1)
    return None


def _days(n: Node, forms: list[Form]) -> Form | None:
    return forms[0].plus(forms[1], 1 if n.op == "add_days" else -1)


def _same(n: Node, forms: list[Form]) -> Form:
    return forms[0]


def _integral(n: Node, forms: list[Form]) -> Form | None:
    source = n.args[0].type
    if source.kind == "int" or (source.kind == "decimal" and source.scale == 0):
        return forms[0]
    if source.kind == "decimal":
        return forms[0].widened(1, 0) if n.op == "floor" else forms[0].widened(0, 1)
    return None


_RULES = {
    "add": _sum, "sub": _sum, "neg": _neg, "mul": _mul, "intdiv": _intdiv, "cast": _cast, "add_days": _days,
    "date_diff": _days, "unix_date": _same, "floor": _integral, "ceil": _integral,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limit:
    """``lo <= sum(terms) + constant <= hi`` is needed so that a node does not err."""

    terms: Mapping[Node, Number]
    constant: Number
    lo: Number
    hi: Number


def span(t: Type) -> tuple[Number, Number]:
    """Least and greatest value of a discrete type."""
    lo, hi = t.physical_range()
    if t.kind == "decimal":
        return _plain(Fraction(lo, 10**t.scale)), _plain(Fraction(hi, 10**t.scale))
    return lo, hi


def reach(atom: Node) -> tuple[Number, Number]:
    """Least and greatest value an atom can have, from its operator where that says more than its type."""
    lo, hi = span(atom.type)
    if atom.op in ("unix_seconds", "unix_millis", "unix_micros"):
        unit = TICKS_PER_SECOND[atom.args[0].type.unit]
        target = {"unix_seconds": 1, "unix_millis": 1_000, "unix_micros": 1_000_000}[atom.op]
        if target < unit:
            return lo * target // unit, hi * target // unit
    if atom.op == "cast" and atom.type.kind == "date" and atom.args[0].type.kind == "timestamp":
        day = 86_400 * TICKS_PER_SECOND[atom.args[0].type.unit]
        # Local dates may lie a day beside those of UTC.
        return max(lo, -(1 << 63) // day - 1), min(hi, (1 << 63) // day + 1)
    if atom.op == "cast" and atom.args[0].type.is_discrete and atom.args[0].type.kind == atom.type.kind != "decimal":
        k = Fraction(TICKS_PER_SECOND.get(atom.type.unit, 1), TICKS_PER_SECOND.get(atom.args[0].type.unit, 1))
        inner = span(atom.args[0].type)
        return max(lo, ceil(inner[0] * k)), min(hi, floor(inner[1] * k))
    return lo, hi


def guard_box(limits: Iterable[Limit]) -> Box | None:
    """A box of atom values in which every limit holds; None if it would shut out values that rows usually have.

    Only the ends that a limit can reach are cut; atoms that share one limit get equal shares of its room, after
    those that cannot use theirs up.
    """
    box: Box = {}
    for limit in limits:
        ends = {n: reach(n) for n in limit.terms}
        top = [(n, c, c * ends[n][1 if c > 0 else 0]) for n, c in limit.terms.items()]
        bottom = [(n, -c, -c * ends[n][0 if c > 0 else 1]) for n, c in limit.terms.items()]
        for room, parts in ((limit.hi - limit.constant, top), (limit.constant - limit.lo, bottom)):
            if room < 0:
                return None
            for n, c, share in _shares(room, parts):
                lo, hi = box.get(n, ends[n])
                box[n] = (lo, min(hi, share / Fraction(c))) if c > 0 else (max(lo, share / Fraction(c)), hi)
    return box if all(_is_roomy(n, lo, hi) for n, (lo, hi) in box.items()) else None


def _shares(room: Number, parts: list[tuple[Node, Number, Number]]) -> list[tuple[Node, Number, Number]]:
    if sum(full for _, _, full in parts) <= room:
        return []
    parts = sorted(parts, key=lambda p: p[2])
    for i, (_, _, full) in enumerate(parts):
        share = Fraction(room) / (len(parts) - i)
        if full > share:
            return [(n, c, share) for n, c, _ in parts[i:]]
        room -= full
    return []


# Values beyond these are rare in practice (for times: beyond the year 2040), so the slow path for rows outside a guard
# is rarely taken. Where a guard would have to be narrower, a relaxed band with the conjunct in the residual is faster.
_ROOMY_INT = {8: 1 << 8, 16: 1 << 16, 32: 1 << 26, 64: 1 << 48}
_ROOMY_TICKS = {"s": 1 << 36, "ms": 1 << 44, "us": 1 << 54, "ns": 1 << 61}


def _is_roomy(atom: Node, lo: Number, hi: Number) -> bool:
    t = atom.type
    least, most = reach(atom)
    if t.kind == "decimal":
        wanted: Number = Fraction(most) / 1000
    elif t.kind in ("timestamp", "duration"):
        wanted = _ROOMY_TICKS[t.unit]
    elif t.kind == "time":
        wanted = most
    else:
        wanted = _ROOMY_INT[t.bits or 32]
    return hi >= min(wanted, most) and lo <= max(-wanted, least)
