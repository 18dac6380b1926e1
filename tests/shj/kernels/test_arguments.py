"""Kernels, and the functions that they call, take few arguments: related ones travel in records."""

from __future__ import annotations

import ast
from pathlib import Path

import ivjoin

MOST = 12


def _kernels() -> dict[str, int]:
    """Return how many arguments each compiled function of the package takes."""
    root = Path(ivjoin.__file__).parent
    found = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                marks = {ast.unparse(mark).partition("(")[0] for mark in node.decorator_list}
                if not marks.isdisjoint({"inner", "compiled", "intrinsic", "njit", "numba.njit", "numba.cfunc"}):
                    found[f"{path.relative_to(root).as_posix()}: {node.name}"] = len(node.args.args)
    return found


def test_kernels_take_few_arguments() -> None:
    kernels = _kernels()
    assert len(kernels) > 200
    assert {name: n for name, n in kernels.items() if n > MOST} == {}
