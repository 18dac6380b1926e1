"""The words check: words that readers must look up, and sentences that they must read twice.

It reads every Markdown page, and docstrings, error messages and help texts of the code.
``words.json`` records how many marks a file still has. The count of a page and the sum of a package may only shrink.
After a text is rewritten or moved, ``python tests/test_words.py`` renews the record, unless the sum of all would grow.
``python tests/test_words.py FILE ...`` prints the marks of some files.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORD = Path(__file__).with_name("words.json")
MOST_WORDS = 35

# Words to avoid, and what to write instead.
WORDS = {
    r"held|kept": "stored, kept -> 'stored', 'cached' or 'retained'",
    r"asked": "'requested', 'the query'",
    r"told|said|says (of|so)": "'reported', 'given', '`explain` shows'",
    r"anew": "'again'",
    r"whoever|nobody|somebody": "name who acts",
    r"(of|by|from) which|of what|(that|those) of": "split the sentence",
    r"(is|are|has|have) none": "'does not exist', 'is empty', 'cannot'",
    r"as \w+ ha(s|ve) it|as ever|by then": "say it plainly",
    r"lets? go of|goes away|(is|are) gone": "'releases', 'is freed', 'is deleted'",
    r"(?:come|comes|came|coming) out": "'is emitted'",
    r"what \w+ is to": "name the relation",
    r"takes? (its|their) turns?|is through": "'runs', 'has finished'",
    r"the way(?! out)|ways (in|out)": "'path', 'method', 'code path'",
    r"beside": "'next to', 'in addition to', 'compared with'",
    r"little(?!-endian)|as good as|some (\d[\d,]*|ten|twenty|hundred|thousand|million)": "the number, or 'about 200'",
    r"mend(s|ed|ing)?": "'fix'", r"owe[sd]?": "'must emit'", r"kids?": "'children'",
    r"rooms?": "'capacity', 'reserved memory', 'package'",
    r"bells?|boards?|lanes?|landings?|careful|loose|freez(e|ing)|lend(ing|s)?|lent": "delete, or the glossary's term",
}
AVOID = re.compile(rf"\b(?:{'|'.join(f'(?P<w{i}>{words})' for i, words in enumerate(WORDS))})\b")
CODE = re.compile(r"^```.*?^```\s*$|^    [^\n]*$|<!--.*?-->", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> Iterator[str]:
    """The paragraphs, list items, headings and table cells of Markdown or of a docstring, without code."""
    block: list[str] = []
    indent = -1
    for line in [*re.sub(r"(``?)[^`]+\1", "CODE", text).splitlines(), ""]:
        stripped, here = line.strip(), len(line) - len(line.lstrip())
        alone = re.match(r"[|#]|>>>|\.\.\.|---|[\w*, ]+ : ", stripped) is not None  # the last: a parameter of numpydoc
        if block and (not stripped or alone or here < indent or re.match(r"([-*+]|\d+\.) ", stripped)):
            yield " ".join(block)
            block = []
        if stripped.startswith(("|", "#")):
            yield from stripped.strip("|# ").split("|")
        elif stripped and not alone:
            block.append(stripped)
            indent = here


def marks(text: str) -> Iterator[str]:
    """What is marked in a text: words of the list, and sentences of too many words."""
    for block in blocks(text):
        plain = re.sub(r"\]\([^)]*\)", "]", block)
        for found in AVOID.finditer(plain.lower()):
            instead = list(WORDS.values())[int(str(found.lastgroup)[1:])]
            yield f"'{found[0]}', write {instead}: ...{plain[max(found.start() - 30, 0) : found.end() + 20]}..."
        for sentence in re.split(r"(?<=[.!?])[\"')*_]*\s", plain):
            count = sum(any(c.isalnum() for c in word) for word in sentence.split())
            if count > MOST_WORDS:
                yield f"{count} words in a sentence: {sentence[:90]}..."


def strings(node: ast.AST) -> Iterator[str]:
    """The texts in an expression; what an f-string fills in is one word."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(v.value) if isinstance(v, ast.Constant) else "CODE" for v in node.values)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and of the bodies inside them; far fewer nodes than `ast.walk` visits."""
    for statement in body:
        yield statement
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(statement, name, ()):
                yield from statements([inner])


def texts(path: Path) -> Iterator[str]:
    """What a reader sees of a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield CODE.sub("", text)
        return
    tree = ast.parse(text)
    yield ast.get_docstring(tree) or ""
    for node in statements(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from strings(node.exc)
    if " help=" in text:
        for found in ast.walk(tree):
            if isinstance(found, ast.keyword) and found.arg == "help":
                yield from strings(found.value)


FOLDERS = ("docs", "ivjoin", "tests")
PAGES = sorted([*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))])
PACKAGES = [
    ROOT / "examples",
    *sorted(p for p in (ROOT / "ivjoin").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()),
]


def counted(paths: list[Path]) -> Counter[str]:
    """Marks by file, of pages, modules and packages."""
    files = [f for p in paths for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])]
    return Counter({f.relative_to(ROOT).as_posix(): sum(1 for t in texts(f) for _ in marks(t)) for f in files})


@pytest.mark.parametrize("path", [*PAGES, *PACKAGES], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_new_marks(path: Path) -> None:
    recorded, here = json.loads(RECORD.read_text()), path.relative_to(ROOT).as_posix()
    allowed = {f: n for f, n in recorded.items() if f == here or f.startswith(f"{here}/")}
    now = counted([path])
    worse = " ".join(f for f, n in now.items() if n > allowed.get(f, 0))
    assert sum(now.values()) <= sum(allowed.values()), f"`python tests/test_words.py {worse}` prints the new marks"


@pytest.mark.parametrize(("text", "found"), [
    ("The rows are stored.", 0), ("Rows held\nin memory.", 1), ("The `rows held` count.\n\n| a | is told |\n", 1),
    ("word " * 35 + ".", 0), ("word " * 36 + ".", 1), ("word " * 20 + ".\n\n" + "word " * 20, 0),
    ("- " + "word " * 20 + "\n- " + "word " * 20, 0), ("The bytes are little-endian. Here is the way out.", 0),
])  # fmt: skip
def test_marks(text: str, found: int) -> None:
    assert len(list(marks(text))) == found


def test_what_is_read(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""Held."""\ndef f():\n    """Kept."""\n    x = "held"\n    raise ValueError(f"{x} is gone")\n')
    assert sum(1 for t in texts(module) for _ in marks(t)) == 3
    page = tmp_path / "p.md"
    page.write_text("# Held\n\n```\nheld\n```\n\n    held\n\nSee [it](held.md).\n")
    assert sum(1 for t in texts(page) for _ in marks(t)) == 1


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for mark in (m for t in texts(Path(name)) for m in marks(t)):
            print(f"{name}: {mark}")
    if len(sys.argv) == 1:
        counts = counted([*PAGES, *PACKAGES])
        before = sum(json.loads(RECORD.read_text()).values())
        assert counts.total() <= before, f"{counts.total()} marks, where {before} are recorded"
        RECORD.write_text(json.dumps({f: n for f, n in sorted(counts.items()) if n}, indent=1) + "\n")
        print(f"{before} -> {counts.total()} marks")
