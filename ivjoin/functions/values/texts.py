"""Pattern matches and functions of strings. pyarrow.compute evaluates most of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ivjoin.expr.build import strings
from ivjoin.expr.build.strings import constant_int, constant_text
from ivjoin.expr.kernels import strings as ops_strings
from ivjoin.expr.literals import literal
from ivjoin.expr.types import BOOL
from ivjoin.expr.words import string_text
from ivjoin.functions.records.record import (
    ANY,
    NO_NUMBER,
    NO_ORDER,
    TEXT_BOUNDS,
    Absent,
    Call,
    Meaning,
    Operator,
    call,
    of_texts,
    one,
    quiet,
)
from ivjoin.functions.records.writing import ADD, ATOM, COMPARE, Arg, Node, Written, written_call
from ivjoin.functions.rules import rules_text

__all__ = ["OPERATORS", "SPELLINGS"]

_NOT_A_TEXT = Absent("SymPy does not have strings")


def _compute(name: str, examples: tuple[str, ...], written: str | Written, *calls: Call) -> Operator:
    """Return the record of a function that pyarrow.compute evaluates. Its options follow the arguments in SQL."""

    def text(n: Node, arg: Arg) -> tuple[str, int]:
        return written_call(str(written), [arg(i) for i in range(len(n.args))], n.params[1:])

    return Operator(
        name, {"*": Meaning(ops_strings.function, TEXT_BOUNDS)}, examples,
        text if isinstance(written, str) else written, NO_ORDER, NO_NUMBER, calls=tuple(map(of_texts, calls)),
        sympy=_NOT_A_TEXT,
    )  # fmt: skip


def _with_text(name: str, make: Callable[[Node, str], Node]) -> Call:
    what = f"the second argument of {name.split()[0]}"
    return call(name, 2, 2, lambda a, z: make(a[0], constant_text(a[1], what)))


def _of_text(name: str, names: str) -> Operator:
    """Return the record of a function with one argument."""
    what = names.split()[0]
    return _compute(name, (f"{what}(l.s)",), what, one(names, partial(strings.of_text, name, what)))


def _sought(name: str, what: str, text: str) -> Operator:
    """Return the record of a function that searches for a text in another one."""
    call = _with_text(what, partial(strings.of_text, name, what, type=BOOL))
    return _compute(name, (f"{what}(l.s, '{text}')",), what, call)


def _with_int(name: str, make: Callable[[Node, int], Node]) -> Call:
    return call(name, 2, 2, lambda a, z: make(a[0], constant_int(a[1], f"the second argument of {name}")))


def _text_at(a: list[Node], i: int, default: str, what: str) -> str:
    return constant_text(a[i], what) if len(a) > i else default


def _trimmed(name: str, names: str, characters_first: bool) -> Call:
    make = partial(strings.of_text, name, names.split()[0])

    def trim(a: list[Node], zone: str) -> Node:
        if len(a) == 1:
            return make(a[0], " ")
        # In Spark, the first argument of ltrim and rtrim with two arguments are the characters.
        characters, x = a if characters_first else reversed(a)
        return make(x, constant_text(characters, "what a trim removes"))

    return call(names, 1, 2, trim)


def _trim(where: str, name: str) -> Written:
    def written(n: Node, arg: Arg) -> tuple[str, int]:
        characters = n.params[1]
        if characters == " ":
            return written_call(name, [arg(0)])
        return f"trim({where} {string_text(characters)} FROM {arg(0)})", ATOM

    return written


def _like(n: Node, arg: Arg) -> tuple[str, int]:
    pattern, escape = n.params
    tail = "" if escape == "\\" else f" ESCAPE {string_text(escape)}"
    return f"{arg(0, ADD)} LIKE {string_text(pattern)}{tail}", COMPARE


def _concat(n: Node, arg: Arg) -> tuple[str, int]:
    return written_call("concat", [arg(i) for i in range(len(n.args) - 1)])


def _substring(n: Node, arg: Arg) -> tuple[str, int]:
    _, start, *stop = n.params
    count = [stop[0] - start] if stop and stop[0] is not None else []
    return written_call("substring", [arg(0)], [start + 1 if start >= 0 else start, *count])


def _padding(name: str, make: Callable[[Node, int, str], Node]) -> Call:
    return call(name, 2, 3, lambda a, z: make(
        a[0], constant_int(a[1], f"the width of {name}"), _text_at(a, 2, " ", f"the fill of {name}")))  # fmt: skip


OPERATORS = (
    Operator(
        "like", {"*": quiet(ops_strings.like, rules_text.like)}, ("l.s LIKE 'a%'", "l.s LIKE 'ab'", "l.s LIKE '%b_'"),
        _like, NO_ORDER, NO_NUMBER, sympy=_NOT_A_TEXT,
    ),
    _compute("match_substring_regex", ("rlike(l.s, 'a+b')",), "rlike"),
    _sought("starts_with", "startswith", "a"),
    _sought("ends_with", "endswith", "b"),
    _sought("match_substring", "contains", "b"),
    _of_text("utf8_upper", "upper ucase"),
    _of_text("utf8_lower", "lower lcase"),
    _of_text("utf8_title", "initcap"),
    _of_text("utf8_reverse", "reverse"),
    _compute("utf8_length", ("length(l.s)",), "length", one("length len char_length character_length", strings.length)),
    _compute("binary_length", ("octet_length(l.s)", "length(l.z)"), "octet_length",
             one("octet_length", strings.octet_length)),
    _compute("utf8_trim", ("trim(l.s)", "trim(BOTH 'ab' FROM l.s)"), _trim("BOTH", "trim"),
             _trimmed("utf8_trim", "trim btrim", False)),
    _compute("utf8_ltrim", ("ltrim(l.s)", "trim(LEADING 'ab' FROM l.s)"), _trim("LEADING", "ltrim"),
             _trimmed("utf8_ltrim", "ltrim", True)),
    _compute("utf8_rtrim", ("rtrim(l.s)", "trim(TRAILING 'ab' FROM l.s)"), _trim("TRAILING", "rtrim"),
             _trimmed("utf8_rtrim", "rtrim", True)),
    _compute("utf8_slice_codeunits", ("substring(l.s, 2, 3)", "substring(l.s, -2)"), _substring,),
    _compute("replace_substring", ("replace(l.s, 'a', 'b')",), "replace", call(
        "replace", 2, 3, lambda a, z: strings.replace(
            a[0], constant_text(a[1], "the search text of replace"), _text_at(a, 2, "", "the replacement")))),
    _compute("utf8_lpad", ("lpad(l.s, 5, '*')",), "lpad", _padding("lpad", strings.lpad)),
    _compute("utf8_rpad", ("rpad(l.s, 5, '*')",), "rpad", _padding("rpad", strings.rpad)),
    _compute("binary_repeat", ("repeat(l.s, 2)",), "repeat", _with_int("repeat", strings.repeat)),
    _compute("binary_join_element_wise", ("concat(l.s, r.u)", "concat(l.z, r.z)"), _concat,
             call("concat", 0, ANY, lambda a, z: strings.concat(*a))),
)  # fmt: skip
SPELLINGS: tuple[Call, ...] = (
    one("space", lambda a: strings.repeat(literal(" "), constant_int(a, "the argument of space"))),
)
