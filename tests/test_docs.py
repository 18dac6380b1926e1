"""What the documents show is what happens: the README's example, every docstring's, and every link."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def modules() -> list[str]:
    """Every module that the core's own dependencies can import."""
    names = []
    for path in sorted((ROOT / "ivjoin").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "spark" not in parts and parts[-1] != "__main__":
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        failed, _ = doctest.testmod(import_module(name), optionflags=flags)
    assert failed == 0, said.getvalue()


def test_readme_example() -> None:
    code, *others = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert all("ivjoin.spark" in other for other in others), "an example that no test runs"
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    first, *stream = said.getvalue().splitlines()
    assert stream[0] == "pyarrow.RecordBatch"
    assert sorted(eval(first), key=lambda row: (row["user"], row["ts"])) == [
        {"user": 1, "ts": 10, "page": "home", "ts_right": 5, "ad": "shoes"},
        {"user": 1, "ts": 70, "page": "cart", "ts_right": None, "ad": None},
        {"user": 2, "ts": 75, "page": "home", "ts_right": 60, "ad": "books"},
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_exist(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", document.read_text()):
        if "://" not in target:
            page = document.parent / target if target else document
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h.lower()).strip()) for h in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_named_files_exist(document: Path) -> None:
    for name in re.findall(r"`((?:ivjoin|tests|bench)/[\w/]+\.py)`", document.read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("name", re.findall(r"^::: (\S+)$", "\n".join(p.read_text() for p in DOCUMENTS), re.MULTILINE))
def test_names_of_the_reference_exist(name: str) -> None:
    if name.startswith("ivjoin.spark"):
        pytest.importorskip("pyspark")
    module, _, attribute = name.rpartition(".")
    assert hasattr(import_module(module), attribute)


def test_changelog_has_this_version() -> None:
    import ivjoin

    assert f"## {ivjoin.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f'version = "{ivjoin.__version__}"' in (ROOT / "pyproject.toml").read_text()
