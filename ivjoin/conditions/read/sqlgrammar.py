"""Parse Spark SQL text to a sqlglot tree. Errors mark the place in the text."""

from __future__ import annotations

import functools
import gc
import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ivjoin.conditions.read.sqllists import with_lists
from ivjoin.errors import ConditionError, IvjoinError, UnsupportedError

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["described", "placed", "refuse_chains", "refuse_mixed_bits", "statement", "tree"]


@functools.cache
def _spark() -> Any:
    """Import and return sqlglot's Spark dialect.

    The garbage collector is off during the import. It would double the time, and could not free any class.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        from sqlglot.dialects.spark import Spark
    finally:
        if collects:
            gc.enable()
    return Spark


@functools.cache
def _parser_class() -> Any:
    base = _spark().Parser
    kept = {"CAST", "TRY_CAST", "EXTRACT", "TRIM"}

    return type(
        "_ConditionParser",
        (base,),
        {
            "FUNCTIONS": {},
            "NO_PAREN_FUNCTIONS": {},
            "FUNCTION_PARSERS": {k: v for k, v in base.FUNCTION_PARSERS.items() if k in kept},
        },
    )


def tree(text: str) -> exp.Expression:
    """Return the tree of ``text``, which must be one expression."""
    from sqlglot import exp

    return _parsed(text, "condition", lambda parser, tokens: parser.parse_into(exp.Condition, tokens, text))


def statement(text: str) -> exp.Expression:
    """Return the tree of ``text``, which must be one statement."""
    return _parsed(text, "query", lambda parser, tokens: parser.parse(tokens, text))


def _parsed(text: str, what: str, parse: Callable[[Any, list[Any]], list[Any]]) -> exp.Expression:
    dialect = _spark()()
    from sqlglot.errors import ParseError, TokenError
    from sqlglot.tokens import TokenType

    try:
        tokens = with_lists(_joined_quotes(dialect.tokenize(text), text))
        for before, token in itertools.pairwise(tokens):
            # A keyword after a dot is a column name.
            if before.token_type == TokenType.DOT and token.text.isidentifier() and token.token_type != TokenType.VAR:
                if token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING):
                    token.token_type = TokenType.VAR
        for token in tokens:
            if token.token_type == TokenType.HEX_STRING and text[token.start : token.start + 1] == "0":
                raise ConditionError(
                    f"{text[token.start : token.end + 1]} is not a number of Spark SQL; write it in decimal"
                )
        trees = parse(_parser_class()(dialect=dialect), tokens)
    except TokenError as e:
        raise ConditionError(f"the {what} cannot be read: {str(e).splitlines()[0]}\n  {text.strip()}") from None
    except ParseError as e:
        raise _syntax_error(text, what, e) from None
    trees = [t for t in trees if t is not None]
    if len(trees) != 1:
        hint = _hint(text) if what == "condition" else ""
        raise ConditionError(f"expected one {what}, got {len(trees)} statements{hint}: {text.strip()}")
    return trees[0]


def _joined_quotes(tokens: list[Any], text: str) -> list[Any]:
    """Join the two tokens of ``'it''s'``, which is one string that contains a quote."""
    from sqlglot.tokens import TokenType

    out: list[Any] = []
    for token in tokens:
        last = out[-1] if out else None
        if last is not None and token.token_type == last.token_type == TokenType.STRING and last.end + 1 == token.start:
            quote = text[token.start]
            if text[last.end] == quote:
                last.text, last.end = last.text + quote + token.text, token.end
                continue
        out.append(token)
    return out


_OF_QUERIES = ("SELECT", "FROM", "JOIN", "WITH", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "UNION")


def _hint(text: str, at: str = "") -> str:
    """Return a hint for a text that is not a condition. ``at`` is the word that the parser did not expect."""
    first, at = text.split(maxsplit=1)[0].upper() if text.strip() else "", " ".join(at.upper().split())
    if first in _OF_QUERIES or at in _OF_QUERIES:
        return "; condition= takes only the text after ON, such as l.k = r.k, and ivjoin.sql() takes a whole query"
    if first in ("ON", "WHERE"):
        return f"; leave out {first}, or give the whole query to ivjoin.sql()"
    if at in ("ON", "WHERE"):
        return f"; write AND for {at}, or give the whole query to ivjoin.sql()"
    return "; write AND for &&" if "&&" in text else ""


def _syntax_error(text: str, kind: str, e: Any) -> ConditionError:
    first = e.errors[0] if e.errors else {}
    what = str(first.get("description") or e).split(". Line")[0]
    if "missing for" in what:
        what = "something is missing here"
    elif what.startswith("Invalid expression"):
        what = "this was not expected here"
    line, col, mark = first.get("line"), first.get("col"), first.get("highlight") or ""
    what += _hint(text, mark) if kind == "condition" else ""
    if not line or not col:
        return ConditionError(f"the {kind} cannot be read: {what}\n  {text.strip()}")
    start = max(0, col - max(len(mark), 1))
    return ConditionError(
        f"the {kind} cannot be read, line {line}, column {start + 1}: {what}\n"
        + _marked(text, line - 1, start, max(len(mark), 1))
    )


def _marked(text: str, line: int, start: int, width: int) -> str:
    lines = text.splitlines() or [""]
    shown = lines[min(line, len(lines) - 1)]
    cut = max(0, start - 80)
    return f"  {shown[cut : cut + 160]}\n  {' ' * (start - cut)}{'^' * width}"


def placed(error: IvjoinError, e: exp.Expression, text: str) -> IvjoinError:
    """Return an error that marks the place of ``e`` in the text, unless ``error`` already marks a place."""
    if getattr(error, "placed", False):
        return error
    span = _span(e, text)
    if span is not None:
        start, end = span
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", start)
        width = max(1, min(end, stop if stop >= 0 else len(text)) - start)
        error = error.saying(f"{error}\n{_marked(text, text.count(chr(10), 0, start), start - begin, width)}")
    error.placed = True  # type: ignore[attr-defined]
    return error


def _span(e: exp.Expression, text: str) -> tuple[int, int] | None:
    spans = [(n.meta["start"], n.meta["end"] + 1) for n in e.walk() if "start" in n.meta and "end" in n.meta]
    if e.__class__.__name__ == "Anonymous":
        m = re.search(rf"\b{re.escape(str(e.this))}\s*\(", text)
        if m:
            spans.append((m.start(), m.end()))
    if not spans and e.__class__.__name__ == "Interval" and e.this is not None:
        m = re.search(rf"\bINTERVAL\s+'?{re.escape(str(e.this.this))}\b'?(\s+\w+)?", text, re.IGNORECASE)
        return m.span() if m else None
    return (min(s for s, _ in spans), max(t for _, t in spans)) if spans else None


def described(e: exp.Expression) -> str:
    """Return the name of an unsupported construct for an error message."""
    text = e.sql("spark")
    kind = _KINDS.get(e.__class__.__name__)
    if kind is None:
        kind = "the bitwise operator" if e.__class__.__name__.startswith("Bitwise") else "the construct"
    return f"{kind} in {text[:120]!r}"


_KINDS = {
    "Subquery": "a subquery", "Select": "a query", "Window": "a window function", "Star": "*", "Alias": "a name (AS)",
    "Lambda": "a lambda function", "Bracket": "an element of an array or map", "Dot": "a field of a struct",
    "Tuple": "a tuple", "Placeholder": "a placeholder", "Parameter": "a parameter", "Exists": "a subquery",
}  # fmt: skip


def refuse_chains(e: Any) -> None:
    """Raise an error if an operand of a comparison is a comparison without parentheses."""
    from sqlglot import exp

    loose = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between,
             exp.In, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Not)  # fmt: skip
    for side in (e.this, e.expression):
        if isinstance(side, loose):
            hint = ", and OR for ||, which joins texts" if e.find(exp.DPipe) else ""
            raise ConditionError(
                f"comparisons do not chain; write a < b AND b < c, or put parentheses around one{hint}"
            )


def refuse_mixed_bits(e: Any) -> None:
    """Raise an error for mixed bit operators without parentheses.

    Spark applies shifts first, then &, ^ and |. sqlglot applies them from left to right.
    """
    from sqlglot import exp

    bits = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.DPipe)
    if isinstance(e.this, bits) and not isinstance(e.this, type(e)):
        raise UnsupportedError("several operators of bits in a row: put parentheses around one of them")
