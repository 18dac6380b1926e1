"""Lists of constants that bypass the parser mean the same as lists that it reads."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ivjoin.conditions.read import sqllists
from ivjoin.conditions.read.sqltext import parse_scalar
from ivjoin.errors import ConditionError
from ivjoin.expr import Scope

SCHEMA = pa.schema({
    "b": pa.int8(), "k": pa.int64(), "u": pa.uint64(), "x": pa.float64(), "s": pa.string(), "d": pa.date32(),
    "p": pa.decimal128(10, 2),
})  # fmt: skip
SCOPE = Scope(SCHEMA, SCHEMA)
NUMBERS = [*range(-20, 20), 0]
TEXTS = ["'a'", "'it''s'", "'\\\\'", "','", "')'"]


def listed(items: list[str], name: str = "l.k", word: str = "IN") -> str:
    return f"{name} {word} ({', '.join(items)})"


@pytest.mark.parametrize("text", [
    *(listed([str(i) for i in NUMBERS], f"l.{name}") for name in "bkuxp"),
    listed([str(i) for i in NUMBERS], "l.k", "NOT IN"),
    listed([str(i) for i in NUMBERS], "l.k + r.k"),
    f"{listed([str(i) for i in NUMBERS])} AND {listed([str(i) for i in reversed(NUMBERS)], 'r.u')} OR l.b = 1",
    *(listed([str(i) for i in NUMBERS] + [more]) for more in
      ("128", "99999999999999999999", "NULL", "1.5", "2e0", "'7'", "- 7", "+ 7", "3L", "l.b", "1 + 1", "(5)")),
    *(listed([*(f"'{i}'" for i in range(50)), *TEXTS, *more], f"l.{name}") for name, more in
      (("s", []), ("s", ["NULL"]), ("s", ["'a' 'b'"]), ("k", []))),
    listed([f"'2024-01-{i:02}'" for i in range(1, 32)] * 2, "l.d"),
    listed([f"DATE '2024-01-{i:02}'" for i in range(1, 32)] * 2, "l.d"),
    "'x IN (" + ", ".join(map(str, NUMBERS)) + ")' = l.s",
])  # fmt: skip
def test_a_long_list_is_read_as_the_parser_reads_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> str:
        try:
            return repr(parse_scalar(text, SCOPE))
        except ConditionError as e:
            return str(e).splitlines()[0]

    got = read()
    monkeypatch.setattr(sqllists, "_MANY", 1 << 30)
    assert got == read()


@pytest.mark.parametrize("tail", ["", ",", ", 1", ") )"])
def test_a_list_without_its_end_is_refused(tail: str) -> None:
    with pytest.raises(ConditionError):
        parse_scalar(f"l.k IN ({', '.join(map(str, range(99)))}{tail}", SCOPE)
