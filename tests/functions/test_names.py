"""What is true of a function stands in its record: a list of names elsewhere would miss the next function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ivjoin.expr.nodes import COMPARISONS
from ivjoin.functions.table import OPERATORS

ROOT = Path(__file__).parents[2] / "ivjoin"
# These define operators, read them from a text, or have operators of their own.
HOMES = ("functions", "expr", "conditions/read", "interval")
MOST = 4  # names of a case distinction
# Which operators a piece of code can handle, whatever the others are.
HANDLED = {
    "operator/explaining/wording.py": "symbols of a drawing",
    "separation/isolate.py": "operators that it moves to the other side of a band",
    "separation/overflow.py": "operators that need not evaluate all arguments",
    "spark/conditions/dialect.py": "arithmetic whose range it computes",
    "stream/sharing.py": "operators that may follow a constant of a shape",
}


def lists(text: str) -> Iterator[tuple[int, list[str]]]:
    """The collections of names of operators, comparisons aside, in a module: line and names."""
    for n in ast.walk(ast.parse(text)):
        items = n.keys if isinstance(n, ast.Dict) else n.elts if isinstance(n, (ast.Set, ast.List, ast.Tuple)) else []
        names = [x.value for x in items if isinstance(x, ast.Constant) and isinstance(x.value, str)]
        found = [x for x in names if x in OPERATORS and x not in COMPARISONS]
        if len(found) > MOST:
            yield n.lineno, found  # type: ignore[attr-defined]


FILES = [p for p in sorted(ROOT.rglob("*.py")) if not str(p.relative_to(ROOT)).startswith(HOMES)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_module_lists_functions(path: Path) -> None:
    found = list(lists(path.read_text()))
    name = str(path.relative_to(ROOT))
    if name in HANDLED:
        assert found, f"{name} lists no functions now: take it out of HANDLED"
    else:
        assert not found, f"{name} lists functions: let their records say what is asked of them"


def test_a_list_is_found() -> None:
    text = '_QUIET = frozenset({"add", "sub", "mul", "neg", "abs"})\n_PAIR = ("add", "sub")'
    assert list(lists(text)) == [(1, ["add", "sub", "mul", "neg", "abs"])]
