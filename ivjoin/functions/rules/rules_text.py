"""Rules of texts: comparisons, and the prefix of a LIKE pattern. Functions of texts have no rules."""

from __future__ import annotations

from typing import Any

from ivjoin.expr.nodes import NEGATED
from ivjoin.functions.rules.domain import NULL
from ivjoin.functions.rules.rule import Place, Rule
from ivjoin.functions.rules.state import State
from ivjoin.interval import truth

__all__ = ["compare_texts", "like"]

T, F, N = truth.TRUE, truth.FALSE, truth.NULL
_LAST = 0x10FFFF


def _after(prefix: str) -> str | None:
    """Return a text that is greater than every text with the prefix, or None if it does not exist."""
    for k in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[k]) + 1
        if code <= _LAST:
            # Surrogates are not characters, so skip them.
            return prefix[:k] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)
    return None


def like(p: Place) -> Rule:
    i, a = p.i, p.at[0]
    pattern, escape = p.node.params
    prefix, rest = [], iter(pattern)
    whole = True
    for c in rest:
        if c == escape:
            c = next(rest, "")
        elif c in "%_":
            whole = False
            break
        prefix.append(c)
    start = "".join(prefix)
    end = start if whole else _after(start)

    def up(D: list[Any]) -> int:
        lo, hi, flags = D[a]
        out = truth.KNOWN | (truth.NULL if flags & NULL else 0)
        outside = (hi is not None and hi < start) or (
            lo is not None and end is not None and (lo > end or (lo == end and not whole))
        )
        return out & ~truth.TRUE if outside else out

    def down(s: State) -> None:
        mask = s.D[i]
        if mask & truth.NULL:
            return
        s.cut_mask(i, up(s.D))
        if mask == truth.TRUE:
            s.cut_text(a, start or None, end, 0)
        else:
            s.drop_flags(a, 0)

    return Rule(up, down)


def compare_texts(p: Place) -> Rule:
    i, (a, b), op = p.i, p.at, p.node.op

    def up(D: list[Any]) -> int:
        alo, ahi, af = D[a]
        blo, bhi, bf = D[b]
        out = N if (af | bf) & NULL else 0
        below = blo is not None and ahi is not None and ahi < blo
        above = alo is not None and bhi is not None and alo > bhi
        point = alo is not None and alo == ahi == blo == bhi
        if op in ("eq", "ne"):
            can, cannot = (not below and not above), not point
            out |= (T if can else 0) | (F if cannot else 0) if op == "eq" else (F if can else 0) | (T if cannot else 0)
            return out
        # Find which of a < b, a = b and a > b are possible.
        lt = not above and not (alo is not None and alo == bhi)
        gt = not below and not (ahi is not None and ahi == blo)
        eq = not below and not above
        yes = {"lt": lt, "le": lt or eq, "gt": gt, "ge": gt or eq}[op]
        no = {"lt": gt or eq, "le": gt, "gt": lt or eq, "ge": lt}[op]
        return out | (T if yes else 0) | (F if no else 0)

    def down(s: State) -> None:
        mask = s.D[i]
        if mask & N:
            return
        s.drop_flags(a, 0)
        s.drop_flags(b, 0)
        # Most texts have no previous text, so a strict upper bound cannot narrow. The forward rule can still refute it.
        s.cut_mask(i, up(s.D))
        if mask not in (T, F):
            return
        true = op if mask == T else NEGATED[op]
        alo, ahi, _ = s.D[a]
        blo, bhi, _ = s.D[b]
        if true in ("lt", "le", "eq"):
            strict = true == "lt"
            s.cut_text(a, None, _below(bhi) if strict else bhi, 0)
            s.cut_text(b, _above(alo) if strict else alo, None, 0)
        if true in ("gt", "ge", "eq"):
            strict = true == "gt"
            s.cut_text(a, _above(blo) if strict else blo, None, 0)
            s.cut_text(b, None, _below(ahi) if strict else ahi, 0)

    return Rule(up, down)


def _above(text: Any) -> Any:
    """Return the next text, which is the text followed by a zero character. None is an open end."""
    return text if text is None else text + ("\0" if isinstance(text, str) else b"\0")


def _below(text: Any) -> Any:
    """Return an upper bound of the smaller texts: the text itself, or without a zero character at its end."""
    if text is None or not text or text[-1] not in ("\0", 0):
        return text
    return text[:-1]
