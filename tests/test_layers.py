"""The tree is the architecture: imports run one way, and each third-party package is imported in one place."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "ivjoin"

# A room may import itself, the errors, and what stands here. Rooms that may not know each other do not list each other.
_PLANNING = {
    "expr", "functions", "conditions", "interval", "separation", "propagation", "shj", "outer", "frontier", "plan",
}
_OPERATOR = {"conditions", "expr", "frontier", "metrics", "operator", "outer", "plan", "shj"}
MAY_IMPORT = {
    # types alone, see below: importing the package imports the errors alone
    "__init__": {"conditions", "files", "frontier", "metrics", "multi", "operator", "plan", "stream"},
    "__main__": {"cli"},
    "errors": set(),
    "arguments": set(),
    "metrics": set(),
    "interval": set(),
    "expr": {"interval"},  # the numbers are rounded and counted in one place
    "functions": {"expr", "interval"},
    "conditions": {"expr", "functions"},
    "separation": {"expr", "functions", "conditions"},
    "propagation": {"interval", "expr", "functions", "conditions"},
    "shj": set(),  # kernels freeze what they import, and the stamp of their disk cache looks at this room alone
    "frontier": {"expr", "conditions", "shj"},  # a tracker's counts are a record of the registers
    "outer": {"expr", "conditions", "shj"},
    "plan": _PLANNING - {"functions", "interval", "plan"},
    "operator": _PLANNING - {"functions", "interval", "separation"} | {"metrics", "shedding"},
    "routing": {"expr", "conditions", "plan", "shj"},  # hashes by the kernels of keys; knows no operator
    "multi": _OPERATOR - {"outer", "shj"} | {"propagation", "routing", "separation"},
    "stream": _OPERATOR | {"files", "multi"},
    "files": {"expr", "propagation", "shj"},  # writes columns as plain ones
    "spark": _OPERATOR | {"stream", "files", "multi", "routing"},
    "shedding": set(),
    # the command line knows the public names of `ivjoin` and files, nothing behind them; only its demo knows Spark
    "cli": {"ivjoin", "files", "spark"},
}
ANY_ROOM = {"errors", "arguments"}  # that every room may import, so that they count as no arrow
LOOSE = {"__init__", "__main__", "metrics"} | ANY_ROOM  # modules that stand in no room
ANYWHERE = {"numpy", "pyarrow"}
ONLY_IN = {
    "numba": {"shj"},
    "llvmlite": {"shj"},
    "sympy": {"conditions"},
    "mpmath": {"interval"},
    "sqlglot": {"conditions"},
    "pyspark": {"spark"},
    "py4j": {"spark"},  # comes with pyspark
    "pandas": {"spark", "stream"},
    # also by name, where a caller requests a frame
    "duckdb": {"cli", "stream"},
    "polars": {"stream"},
    "fsspec": {"files"},
    "ortools": {"shedding"},
    "deltalake": {"spark"},
    "datasketches": {"routing"},
    "rich": {"cli"},
}
# heavy packages that even their own room imports only when a call needs them
ON_DEMAND = {"sympy", "sqlglot", "datasketches", "deltalake", "duckdb", "polars"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room(path: Path) -> str:
    return room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))


def room_of(module: str) -> str:
    """The package of a module, named from below ``ivjoin``."""
    return module.partition(".")[0]


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Every imported module of a file with whether importing the file imports it. Types alone count, too.

    ``import_module`` of a literal name counts as an import.
    """
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, at_import: bool) -> None:
        typed = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if isinstance(node, ast.Import):
            found.extend((alias.name, at_import) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            found.append((str(node.module), at_import))
            if node.module == "ivjoin":
                # `from ivjoin import expr` names a room, `from ivjoin import Order` a public name
                found[-1:] = [(f"ivjoin.{a.name}" if a.name in MAY_IMPORT else "ivjoin", at_import) for a in node.names]
            elif str(node.module).startswith("ivjoin."):
                found[-1:] = [(_module(str(node.module), a.name), at_import) for a in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found.extend((str(a.value), False) for a in node.args if isinstance(a, ast.Constant))
        inside = typed or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, at_import and not inside)

    visit(ast.parse(path.read_text()), True)
    return found


def _module(package: str, name: str) -> str:
    """The module that ``from package import name`` imports."""
    inside = ROOT.parent.joinpath(*package.split("."), f"{name}.py")
    return f"{package}.{name}" if inside.exists() or inside.with_suffix("").is_dir() else package


def arrows() -> set[tuple[str, str]]:
    """The pairs of packages of which one imports the other, for types too; modules in the top folder do not count."""
    found = {(room(p), room_of(name.removeprefix("ivjoin."))) for p in modules() for name, _ in imports(p)
             if name.startswith("ivjoin.")}  # fmt: skip
    return {(here, there) for here, there in found if here != there and not {here, there} & LOOSE}


def test_packages_import_few_others() -> None:
    allowed = {(here, there) for here, rooms in MAY_IMPORT.items() for there in rooms}
    found = arrows()
    assert {a for a in allowed if not {*a} & (LOOSE | {"ivjoin"})} == found, "MAY_IMPORT lists what no module imports"
    assert len(found) <= 70


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_run_one_way(path: Path) -> None:
    here = room(path)
    assert here in MAY_IMPORT, f"{here} is a new room: give it a line in MAY_IMPORT"
    for name, at_import in imports(path):
        top, _, rest = name.partition(".")
        if top == "ivjoin":
            there = room_of(rest) or "ivjoin"
            allowed = MAY_IMPORT[here] | {here, *ANY_ROOM}
            assert there in allowed, f"{here} must not import {name}"
            assert here != "__init__" or there == "errors" or not at_import, f"importing ivjoin must not import {name}"
            plain = there == "errors" and not path.stem.endswith("_kernels")
            assert here != "shj" or there == "shj" or plain, f"{path.name}: a kernel must not depend on {name}"
        elif top not in sys.stdlib_module_names:
            assert here in ONLY_IN.get(top, {here} if top in ANYWHERE else set()), f"{here} must not import {name}"
            assert not (top in ON_DEMAND and at_import), f"{path.name} imports {top} before a call needs it"
            assert not (here == "interval" and top == "pyarrow"), "interval/ must not know Arrow"


_MOST_LINES = 500
_MOST_LINES_HERE = 350  # of a file in ivjoin/
_WRITTEN = [p for room in ("ivjoin", "bench", "examples", "tests") for p in sorted((ROOT.parent / room).rglob("*.py"))]


def test_no_file_is_long() -> None:
    lines = {p.relative_to(ROOT.parent).as_posix(): p.read_text().count("\n") for p in _WRITTEN}
    assert {name: n for name, n in lines.items() if n > _MOST_LINES} == {}
    long = {name.removeprefix("ivjoin/") for name, n in lines.items() if n > _MOST_LINES_HERE and name[:7] == "ivjoin/"}
    assert long == set(), "divide these files by their subjects"


TESTS = ROOT.parent / "tests"


def test_no_folder_is_large() -> None:
    files = Counter(p.parent.relative_to(ROOT).as_posix() for p in ROOT.rglob("*.py") if p.name != "__init__.py")
    assert {folder: n for folder, n in files.items() if n > 14} == {}


def test_no_folder_of_tests_is_large() -> None:
    files = Counter(p.parent.relative_to(TESTS).as_posix() for p in TESTS.rglob("test_*.py"))
    assert {folder: n for folder, n in files.items() if n > 15} == {}


def test_no_test_file_imports_another() -> None:
    found = [p.name for p in TESTS.rglob("*.py") if re.search(r"^(from|import) [\w.]*\btest_\w+", p.read_text(), re.M)]
    assert found == []


@pytest.mark.parametrize("mark, variable", [("spark", "OF_SPARK"), ("nojit", "OF_KERNELS")])
def test_marked_tests_are_where_make_looks_for_them(mark: str, variable: str) -> None:
    looked = re.search(rf"^{variable} := (.*)$", (ROOT.parent / "Makefile").read_text(), re.M)
    assert looked is not None
    marked = [p for p in TESTS.rglob("test_*.py") if f"pytest.mark.{mark}\n" in p.read_text()]
    homes = [ROOT.parent / path for path in looked[1].split()]
    assert [p for p in marked if not any(p.is_relative_to(home) for home in homes)] == []


def test_no_module_in_the_top_folder() -> None:
    assert {path.stem for path in ROOT.glob("*.py")} <= LOOSE


def graph(roots: list[Path]) -> dict[str, set[str]]:
    """Module -> the modules of ivjoin that it imports, at whatever time."""
    dotted = ((".".join(("ivjoin", *p.relative_to(ROOT).with_suffix("").parts)), p) for p in roots)
    known = {name.removesuffix(".__init__"): path for name, path in dotted}
    return {name: {target for target, _ in imports(path)} & known.keys() - {name} for name, path in known.items()}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Every strongly connected part of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(v: str) -> None:
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges[v]):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            part = []
            while not part or part[-1] != v:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


def test_no_modules_import_each_other() -> None:
    # the package's own file knows the public names alone, and loads them when they are used
    assert circles(graph([p for p in modules() if p != ROOT / "__init__.py"])) == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_the_rule_finds_what_it_forbids(tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    typed = "if TYPE_CHECKING:\n    from ivjoin.plan.spec import JoinSpec\n"
    late = "def f():\n    import sympy.abc\n    import_module('ivjoin.outer.batches')\n"
    probe.write_text(f"from ivjoin import expr, Order\nimport ivjoin.shj.store.keys\n{typed}{late}")
    assert imports(probe) == [
        ("ivjoin.expr", True), ("ivjoin", True), ("ivjoin.shj.store.keys", True), ("ivjoin.plan.spec", False),
        ("sympy.abc", False), ("ivjoin.outer.batches", False),
    ]  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}; import sys; print(*{{m.partition('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


HEAVY = {
    "datasketches", "duckdb", "llvmlite", "matplotlib", "mpmath", "numba", "pandas", "polars", "pyspark", "rich",
    "sqlglot", "sympy",
}  # fmt: skip


FIRST = ["expr", "expr.nodes", "separation.linear", "conditions.evaluate", "functions.table", "functions.rules.domain",
         "functions.values.nested", "propagation", "propagation.dag", "interval"]  # fmt: skip


@pytest.mark.one_in(13)
@pytest.mark.parametrize("module", FIRST)
def test_any_package_can_be_imported_first(module: str) -> None:
    assert "ivjoin" in loaded_by(f"import ivjoin.{module}")


def test_importing_ivjoin_loads_nothing_heavy() -> None:
    assert not loaded_by("import ivjoin") & HEAVY
    assert loaded_by("import ivjoin; ivjoin.SymmetricHashJoin") & HEAVY == {"llvmlite"}
    assert "numba" in loaded_by("import ivjoin.shj.kernels.building")  # or the names above would say nothing


def test_workers_that_join_static_frames_on_spark_load_little() -> None:
    pytest.importorskip("pyspark")
    loaded = loaded_by("import ivjoin.spark.spread.static, ivjoin.spark.spread.cells")
    assert not loaded & HEAVY - {"pyspark", "llvmlite"}


def test_no_module_hides_a_public_name() -> None:
    # importing ivjoin.x sets the attribute x of the package to the module, whatever ivjoin.x was before
    import ivjoin

    assert not {room(path) for path in modules()} & set(ivjoin.__all__)


def test_public_names_exist() -> None:
    import ivjoin

    assert set(dir(ivjoin)) == set(ivjoin.__all__)
    for name in ivjoin.__all__:
        assert getattr(ivjoin, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'band_joins'"):
        ivjoin.band_joins
