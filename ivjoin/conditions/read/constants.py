"""Separate the constants of a condition from its shape: ``l.t <= r.t + 5`` becomes ``l.t <= r.t + `:0` `` and 5.

Conditions that differ only in numbers have the same shape, so they can share a plan. A constant is separated only if it
is an operand of a comparison, a sum or a difference. Others, such as the pattern of LIKE, remain in the shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ivjoin.conditions.read.fluent import Expr, parts
from ivjoin.conditions.read.sqlliterals import number
from ivjoin.errors import IvjoinError
from ivjoin.expr.build.chrono import interval_text
from ivjoin.expr.literals import literal
from ivjoin.expr.nodes import Node

__all__ = ["Shape", "names_left", "shape_of", "slot"]

Shape = tuple[Any, list[Node]]  # the condition with columns in place of constants, and the constants as literals

_MOST = 16  # constants in a condition
_LONGEST_TEXT = 2_000
_OTHER = re.compile(r"""["\\\[\]{}?;]|--|/\*|''""")  # texts with one of these are not read here
_CONSTANT = re.compile(
    r"""`[^`]*`
    | \bINTERVAL\s+(?:'(?P<quoted>[^']*)'|(?P<bare>\d+(?:\.\d+)?))\s+(?P<unit>[A-Z]+)\b(?!\s+TO\b)
    | (?<![\w.`])(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:E[+-]?\d+)?(?![\w.]))
    | '(?P<text>[^']*)'
    | :(?P<name>[A-Z_]\w*)
    | \b(?P<between>BETWEEN|AND|OR|THEN|WHEN)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NAME = re.compile(r":([A-Za-z_]\w*)")
_WORD = re.compile(r"\s*(\w+|<=>|<=|>=|<>|!=|==|.|$)", re.DOTALL)
_COMPARED = frozenset({"<=>", "<=", ">=", "<>", "!=", "==", "<", ">", "=", "between"})
_SUMMED = frozenset({"+", "-"})
_BEFORE = _COMPARED | _SUMMED  # a constant after one of these is an operand of it
_AFTER = _BEFORE | {"", ")", "and", "or", "then"}
_FIRST = frozenset({"", "(", "and", "or", "not", "when"})  # a constant after these may be the operand that comes first
_WORDS = frozenset((
    "and", "or", "not", "between", "in", "is", "like", "rlike", "case", "when", "then", "else", "distinct", "from",
    "div",
))  # fmt: skip
_SIGNS = frozenset(["", *"<>=!+-*/%.,("])
_OPERANDS = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe", "add", "sub"), (0, 1)), "between": (1, 2),
}  # fmt: skip


def slot(number: int) -> str:
    """Return the name of the column that stands for a constant."""
    return f":{number}"


def names_left(shape: Any) -> frozenset[str]:
    """Return the names of the ``:name`` parameters that remain in a shape."""
    return frozenset(_NAME.findall(shape)) if isinstance(shape, str) else frozenset()


def shape_of(condition: Any, params: Mapping[str, Any] | None) -> Shape | None:
    """Return the shape of a condition and its constants. None if no constant can be separated.

    ``params`` contains the values of ``:name`` parameters, also of those that remain in the shape.
    """
    try:
        if isinstance(condition, str):
            found = _of_text(condition, params or {})
        else:
            found = _of_expression(condition) if isinstance(condition, Expr) else None
    except (IvjoinError, ArithmeticError, ValueError):  # reading the condition itself will raise the error
        return None
    return found if found is not None and 0 < len(found[1]) <= _MOST else None


def _of_text(text: str, params: Mapping[str, Any]) -> Shape | None:
    if len(text) > _LONGEST_TEXT or _OTHER.search(text):
        return None
    out: list[str] = []
    constants: list[Node] = []
    copied, between = 0, False
    for m in _CONSTANT.finditer(text):
        kind = m.lastgroup
        if kind is None:
            continue
        if kind == "between":
            word = m[kind].lower()
            between = word == "between" or (between and word == "and")
            continue
        start, sign = m.start(), 1
        before, at = _word_before(text, start)
        if before in _SUMMED:
            further = _word_before(text, at)[0]
            if not _ends_operand(further):
                if before == "+" or kind != "number":
                    continue
                before, start, sign = further, at, -1
        after = _WORD.match(text, m.end())[1].lower()  # type: ignore[index]
        within = before in _BEFORE or (before == "and" and between)
        if not (after in _AFTER and within) and not (before in _FIRST and after in _COMPARED):
            continue
        constant = _constant(m, kind, sign, params)
        if constant is None:
            continue
        out += [text[copied:start], f"`{slot(len(constants))}`"]
        constants.append(constant)
        copied = m.end()
    return "".join([*out, text[copied:]]), constants


def _word_before(text: str, end: int) -> tuple[str, int]:
    """Return the word or sign that ends before ``end``, in lower case, and where it starts."""
    while end and text[end - 1].isspace():
        end -= 1
    start = end - 1 if end else 0
    if start and text[start] in "=>" and text[start - 1] in "<>=!":
        return "<=", start - 1  # this stands for all comparisons of two signs
    while start and text[start - 1 : start + 1].replace("_", "a").isalnum():
        start -= 1
    return text[start:end].lower(), start


def _ends_operand(word: str) -> bool:
    """Return whether a word can end an operand, so that a minus sign after it is a subtraction."""
    return word in (")", "'", "`") or (word[:1] not in _SIGNS and word not in _WORDS)


def _constant(m: re.Match[str], kind: str, sign: int, params: Mapping[str, Any]) -> Node | None:
    if kind == "name":
        return literal(params[m["name"]]) if params.get(m["name"]) is not None else None
    if kind == "unit":
        found = interval_text(m["quoted"] if m["bare"] is None else m["bare"], m["unit"])
        return found if found.type.kind == "duration" else None
    if kind == "text":
        return literal(m["text"])
    return number(m["number"], sign)


def _of_expression(root: Expr) -> Shape | None:
    constants: list[Node] = []
    done: dict[int, Expr] = {}
    for e in parts(root):
        if type(e) is not Expr:
            return None
        args = [done[id(a)] for a in e._args]
        for i in _OPERANDS.get(e._op, ()):
            if args[i]._op == "literal" and args[i]._params[0] is not None:
                args[i] = Expr("column", (), (None, slot(len(constants))))
                constants.append(literal(e._args[i]._params[0]))
        same = all(a is b for a, b in zip(args, e._args, strict=True))
        done[id(e)] = e if same else Expr(e._op, tuple(args), e._params)
    return done[id(root)], constants
