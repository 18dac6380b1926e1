"""Rules of texts: the prefix of a LIKE pattern bounds the matching texts; functions of texts have no rules."""

from __future__ import annotations

from typing import Any

from ivjoin.functions.rules.domain import NULL
from ivjoin.functions.rules.rule import Place, Rule
from ivjoin.functions.rules.state import State
from ivjoin.interval.machine import truth

__all__ = ["like"]

_LAST = 0x10FFFF


def _after(prefix: str) -> str | None:
    """Return a text above every text with the prefix; None if it does not exist."""
    for k in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[k]) + 1
        if code <= _LAST:
            # Surrogates are not characters.
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
