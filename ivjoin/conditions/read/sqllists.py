"""Replace a long list of constants after IN by one token, because parsing thousands of tokens is slow."""

from __future__ import annotations

from typing import Any

__all__ = ["Constants", "with_lists"]

_MANY = 32  # the least number of constants in a list that is replaced
_MOST_DIGITS = 18  # a number of this length always fits int64


class Constants(str):
    """The text of a token that stands for a list of constants, which are all int or all str."""

    __slots__ = ("values",)
    values: list[int] | list[str]


def with_lists(tokens: list[Any]) -> list[Any]:
    """Return the tokens, with each long list of constants replaced by one string token."""
    from sqlglot.tokens import Token, TokenType

    out: list[Any] = []
    begin = 0
    for at in range(len(tokens) - _MANY):
        if at < begin or tokens[at].token_type != TokenType.IN or tokens[at + 1].token_type != TokenType.L_PAREN:
            continue
        values, end = _constants(tokens, at + 2)
        if len(values) > _MANY:
            first, last = tokens[at + 2], tokens[end - 1]
            text = Constants(f"{values[0]}, ...")
            text.values = values
            listed = Token(TokenType.STRING, text, first.line, first.col, first.start, last.end)
            out += [*tokens[begin : at + 2], listed]
            begin = end
    return out + tokens[begin:]


def _constants(tokens: list[Any], at: int) -> tuple[list[Any], int]:
    """Return the constants up to the closing parenthesis, and its index. The list is empty if their kinds differ."""
    from sqlglot.tokens import TokenType

    kind = TokenType.STRING if tokens[at].token_type == TokenType.STRING else TokenType.NUMBER
    minus, comma, end = TokenType.DASH, TokenType.COMMA, TokenType.R_PAREN
    values: list[Any] = []
    while at + 1 < len(tokens):
        sign = 1
        if kind == TokenType.NUMBER and tokens[at].token_type == minus:
            sign, at = -1, at + 1
        token, after = tokens[at], tokens[at + 1].token_type if at + 1 < len(tokens) else None
        if token.token_type != kind or after not in (comma, end):
            break
        if kind == TokenType.STRING:
            values.append(token.text)
        elif token.text.isdigit() and len(token.text) <= _MOST_DIGITS:
            values.append(sign * int(token.text))
        else:
            break
        if after == end:
            return values, at + 1
        at += 2
    return [], at
