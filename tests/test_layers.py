"""The tree is the architecture: imports run one way, and each third-party package has its room."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "ivjoin"

# A room may import itself, the errors, and what stands here. Rooms that may not know each other do not list each other.
_PLANNING = {"arguments", "expr", "interval", "propagation", "shj", "outer", "metrics", "order", "plan", "plan_cache"}
_OPERATOR = _PLANNING | {
    "arrival", "blocks", "bounds", "engine", "protocol", "residual", "row_layout", "sources", "state", "symmetric",
}  # fmt: skip
MAY_IMPORT = {
    "__init__": set(),
    "errors": set(),
    "arguments": set(),
    "metrics": set(),
    "interval": set(),
    "expr": set(),
    "propagation": {"arguments", "interval", "expr"},
    "order": {"expr", "shj"},  # a tracker's counts are a record of the registers
    "shj": set(),  # kernels freeze what they import, and the stamp of their disk cache looks at this room alone
    "outer": {"expr", "shj"},
    "plan": {"arguments", "expr", "interval", "propagation", "shj", "outer", "order"},
    "plan_cache": {"expr", "order", "plan"},
    "bounds": _PLANNING,
    "row_layout": {"plan", "shj"},
    "arrival": _PLANNING | {"row_layout"},
    "residual": _PLANNING,
    "blocks": {"expr", "shj", "symmetric"},
    "protocol": {"metrics"},
    "state": {"shj"},
    "sources": {"expr", "order", "plan", "shj"},
    "output_bounds": _OPERATOR,
    "engine": _OPERATOR,
    "symmetric": _OPERATOR | {"output_bounds", "snapshot"},
    "snapshot": _OPERATOR,
    "explanation": _OPERATOR,
    "parallel": _OPERATOR,
    "stream": _OPERATOR | {"parallel"},
    "parquet": {"expr", "interval", "propagation"},
    "reach": {"expr", "parquet", "plan", "propagation"},
    "spark": _OPERATOR | {"explanation", "snapshot", "stream"},
    "replace": set(),
    "formats": {"replace"},
    # the command line knows the public names of `ivjoin` and its own files, nothing behind them
    "options": {"ivjoin"},
    "demo": {"ivjoin", "formats", "replace", "spark"},
    "cli": {"ivjoin", "formats", "replace", "options", "demo", "reach"},
}
ANYWHERE = {"numpy", "pyarrow"}
ONLY_IN = {
    "numba": {"shj"},
    "llvmlite": {"shj"},
    "sympy": {"expr"},
    "sqlglot": {"expr"},
    "pyspark": {"spark"},
    "pandas": {"spark"},
    "duckdb": {"demo"},
    "rich": {"cli", "demo"},
}
# heavy packages that even their own room imports only when a call needs them
ON_DEMAND = {"sympy", "sqlglot"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every imported module of a file with whether importing the file imports it; type-checking blocks left out."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, at_import: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            found.append((str(node.module), at_import))
            if node.module == "ivjoin":
                # `from ivjoin import expr` names a room, `from ivjoin import Order` a public name
                found[-1:] = [(f"ivjoin.{a.name}" if a.name in MAY_IMPORT else "ivjoin", at_import) for a in node.names]
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, at_import and not inside)

    visit(ast.parse(path.read_text()), True)
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, f"{here} is a new room: give it a line in MAY_IMPORT"
    for name, at_import in imports(path):
        top, _, rest = name.partition(".")
        if top == "ivjoin":
            there = rest.partition(".")[0] or "ivjoin"
            assert there in MAY_IMPORT[here] | {here} | {"errors"}, f"{here} must not import {name}"
            plain = there == "errors" and not path.stem.endswith("_kernels")
            assert here != "shj" or there == "shj" or plain, f"{path.name}: a kernel must not depend on {name}"
        elif top not in sys.stdlib_module_names:
            assert here in ONLY_IN.get(top, {here} if top in ANYWHERE else set()), f"{here} must not import {name}"
            assert not (top in ON_DEMAND and at_import), f"{path.name} imports {top} before a call needs it"
            assert not (here == "interval" and top == "pyarrow"), "interval/ must not know Arrow"


def test_the_rule_finds_what_it_forbids(tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text("from ivjoin import expr, Order\nimport ivjoin.shj.keys\ndef f():\n    import sympy.abc\n")
    assert imports(probe) == [
        ("ivjoin.expr", True), ("ivjoin", True), ("ivjoin.shj.keys", True), ("sympy.abc", False),
    ]  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}; import sys; print(*{{m.partition('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


HEAVY = {"numba", "llvmlite", "sympy", "sqlglot", "pyspark", "pandas", "duckdb", "polars", "rich", "matplotlib"}


def test_importing_ivjoin_loads_nothing_heavy() -> None:
    assert not loaded_by("import ivjoin") & HEAVY
    assert "numba" in loaded_by("import ivjoin; ivjoin.SymmetricHashJoin")


def test_no_module_hides_a_public_name() -> None:
    # importing ivjoin.x sets the attribute x of the package to the module, whatever ivjoin.x was before
    import ivjoin

    assert not {room(path) for path in modules()} & set(ivjoin.__all__)


def test_public_names_are_all_there() -> None:
    import ivjoin

    assert set(dir(ivjoin)) == set(ivjoin.__all__)
    for name in ivjoin.__all__:
        assert getattr(ivjoin, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'band_joins'"):
        ivjoin.band_joins
