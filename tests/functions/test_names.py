"""What is true of a function stands in its record: a name or a list elsewhere would miss the next function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ivjoin.expr import ops
from ivjoin.expr.nodes import COMPARISONS
from ivjoin.functions.table import FUNCTIONS, OPERATORS

ROOT = Path(__file__).parents[2] / "ivjoin"
# The records and what they consist of; the names that the library itself needs; and what reads them from a text.
HOMES = (
    "functions", "expr/build", "expr/kernels", "expr/ops.py", "conditions/read/constants.py",
    "conditions/read/fluent.py", "conditions/read/sqlliterals.py", "conditions/read/sqlselect.py",
    "conditions/read/sqltext.py", "conditions/read/sympyform.py",
)  # fmt: skip
# These packages cannot import `expr`: their operations have names of their own.
OF_THEIR_OWN = ("interval", "shj")
# Functions that are also words for something else: types, the sides of a join, fields of a time.
ALSO_WORDS = {"bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "left", "month", "right",
              "smallint", "string", "timestamp", "tinyint", "year"}  # fmt: skip
NAMES = (set(OPERATORS) | set(FUNCTIONS)) - ALSO_WORDS
# Literals that name something else than a function.
WORDS = {
    "cli/options.py": {"sign"},  # a group of a regular expression
    "cli/demo/flights.py": {"minute"},  # a column
    "multi/explain.py": {"hash"},  # a way to divide rows among workers, here and below
    "operator/explaining/condition.py": {"least"},  # a way to pick one match, here and below
    "operator/explaining/wording.py": {"and", "or", "div"},  # words of a sentence, and a symbol
    "operator/lookup/best.py": {"greatest"},
    "operator/lookup/picks/trim.py": {"least"},
    "operator/memory/lost_matches.py": {"if"},
    "operator/match/kernel/state.py": {"in"},  # an array
    "plan/picking/best.py": {"greatest", "least"},
    "plan/spec.py": {"greatest", "least"},
    "routing/grids/hypercube.py": {"hash"},
    "routing/heavy_keys.py": {"hash"},
    "routing/planner.py": {"hash"},
    "spark/api/join.py": {"hash"},
    "spark/api/many.py": {"hash"},
    "spark/api/schema.py": {"hash"},
    # Spark's names of the functions of a Column
    "spark/conditions/sqlwriter.py": {"and", "div", "ilike", "in", "isnotnull", "isnull", "like", "negative", "not",
                                      "or", "positive", "rlike"},
    "spark/rows/late.py": {"hash"},
    "spark/sink/sinklog.py": {"add", "size"},  # fields of Spark's log
    "spark/spread/spreading.py": {"hash"},
    "spark/state/segments.py": {"log"},  # a file
    "spark/state/stateful.py": {"hash"},
    "spark/state/streamspread.py": {"hash"},
    "stream/after/explained.py": {"or"},  # a word of a sentence
}  # fmt: skip
MOST = 4  # operators of a case distinction
# Which operators a piece of code can handle, whatever the others are.
HANDLED = {
    "operator/explaining/wording.py": "symbols of a drawing",
    "spark/conditions/dialect.py": "arithmetic whose range it computes",
    "stream/sharing.py": "operators that may follow a constant of a shape",
}


def literals(text: str) -> set[str]:
    """The names of functions that are literals of a module, its list of public names aside."""
    tree = ast.parse(text)
    public = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__"]
    own = {x for n in public for x in ast.walk(n)}
    return {
        n.value for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value in NAMES and n not in own
    }  # fmt: skip


def lists(text: str) -> Iterator[tuple[int, list[str]]]:
    """The collections of operators, comparisons aside, in a module: line and names."""
    for n in ast.walk(ast.parse(text)):
        items = n.keys if isinstance(n, ast.Dict) else n.elts if isinstance(n, (ast.Set, ast.List, ast.Tuple)) else []
        names = [getattr(ops, x.attr) for x in items if isinstance(x, ast.Attribute) and ast.unparse(x.value) == "ops"]
        found = [x for x in names if x not in COMPARISONS]
        if len(found) > MOST:
            yield n.lineno, found  # type: ignore[attr-defined]


FILES = {str(p.relative_to(ROOT)): p.read_text() for p in sorted(ROOT.rglob("*.py"))}
FILES = {name: text for name, text in FILES.items() if not name.startswith((*HOMES, *OF_THEIR_OWN))}


def test_no_module_names_a_function() -> None:
    found = {name: words for name, text in FILES.items() if (words := literals(text))}
    assert found == WORDS, "ask the record of a function, or use a name of ivjoin.expr.ops"


def test_no_module_lists_functions() -> None:
    found = {name: listed for name, text in FILES.items() if (listed := list(lists(text)))}
    assert found.keys() == HANDLED.keys(), "let the records of the functions say what is asked of them"


def test_every_name_is_that_of_an_operator() -> None:
    names = {name: value for name, value in vars(ops).items() if name.isupper()}
    assert set(names.values()) <= set(OPERATORS)
    assert all(name == value.upper() for name, value in names.items())
    used = {n.attr for text in FILES.values() for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Attribute)}
    assert set(names) <= used, "the library does not need these names"


def test_a_literal_and_a_list_are_found() -> None:
    text = '__all__ = ["sign"]\n_PAIR = ("add", "x")\n_QUIET = {ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.ABS, ops.EQ}'
    assert literals(text) == {"add"}
    assert list(lists(text)) == [(3, ["add", "sub", "mul", "neg", "abs"])]
