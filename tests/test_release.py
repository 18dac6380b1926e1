"""The release: the archive contains all that the tests read, and names, versions and pictures agree."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.plugin.interface import BuilderInterface
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import ivjoin

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def read_by_tests() -> set[str]:
    """Names at the root of the tree that tests import, or join to its path."""
    there = {p.name for p in ROOT.iterdir() if not p.name.startswith(".")}
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                found |= {n.partition(".")[0] for n in names}
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                right = node.right
                if isinstance(right, ast.Constant) and isinstance(right.value, str):
                    found.add(right.value.partition("/")[0])
    return found & there


@pytest.mark.slow
def test_the_archive_holds_what_the_tests_read() -> None:
    held = {name.strip("/") for name in PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    assert {"bench", "docs", "examples", "ivjoin", "pyproject.toml"} <= read_by_tests()
    assert read_by_tests() - {"pyproject.toml", "build"} <= held  # the first is always in it
    assert {name for name in held if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("builder", [WheelBuilder, SdistBuilder])
def test_every_module_is_packed(builder: type[BuilderInterface[Any, Any]]) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "ivjoin").rglob("*.py")}
    assert "ivjoin/expr/build/__init__.py" in modules
    packed = {file.relative_path for file in builder(str(ROOT)).recurse_included_files()}
    assert modules - packed == set()


def test_links_of_the_readme_lead_somewhere_on_a_package_index() -> None:
    text = (ROOT / "README.md").read_text()
    here = re.findall(r"\]\(([^)#]+)\)", text)
    assert here
    assert [link for link in here if not link.startswith("https:") and not (ROOT / link).exists()] == []
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures == ["https://raw.githubusercontent.com/ivjoin/ivjoin/main/docs/dataflow.svg"]
    assert [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("https:")] == []


def test_the_recipe_is_of_this_version_and_needs_the_same() -> None:
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    assert f'set version = "{ivjoin.__version__}"' in recipe
    run = recipe.partition("  run:\n")[2].partition("\ntest:")[0]
    needed = {re.sub(r"\s", "", line) for line in re.findall(r"- (.*)", run)} - {"python>=3.11"}
    assert needed == set(PROJECT["project"]["dependencies"])


def test_the_metadata_is_whole() -> None:
    project = PROJECT["project"]
    assert project["authors"]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(project["urls"])
    named = {c.rpartition(" ")[2] for c in project["classifiers"] if c.startswith("Programming Language")}
    tested = re.findall(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "tests.yml").read_text())
    push, night = (re.findall(r"3\.\d+", versions) for versions in tested)
    assert night == ["3.11", "3.12", "3.13", "3.14"]
    assert push == [night[0], night[-1]]
    assert set(night) <= named


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build hook; compiling "prints" the processor it is for, as the key of its files."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)

    def run(*_: Any, env: dict[str, str], **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, stdout=env.get("NUMBA_CPU_NAME", "native") + "\n")

    monkeypatch.setattr(hook.subprocess, "run", run)
    return hook


@pytest.mark.parametrize(
    ("processors", "keys"), [(None, ["native"]), ("x86-64-v3,x86-64-v2", ["x86-64-v3", "x86-64-v2"])]
)
def test_wheel_has_only_the_kernels_of_its_own_build(
    processors: str | None, keys: list[str], hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IVJOIN_PROCESSORS", raising=False)
    if processors is not None:
        monkeypatch.setenv("IVJOIN_PROCESSORS", processors)
    folder = tmp_path / "build" / "kernels" / "ivjoin_1"
    folder.mkdir(parents=True)
    for name in ("push.old.o", "push.native.o", "push.x86-64-v2.o", "push.x86-64-v3.o", "gone.old.o"):
        (folder / name).touch()
    data: dict[str, Any] = {"force_include": {}}
    hook.CompileKernels(str(tmp_path), {}, None, None, "", "wheel").initialize("standard", data)
    assert list(data["force_include"].values()) == [f"{hook.HOME}/push.{key}.o" for key in keys]
    assert data["infer_tag"] == (processors is None)
    assert data.get("tag", "py3-none-").startswith("py3-none-")
