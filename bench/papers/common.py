"""What the sections share: refusals, and the place of a section in the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["DOCS", "Refused", "measured_on", "put"]

DOCS = Path(__file__).parent.parent.parent / "docs"


class Refused(ValueError):
    """An argument that an experiment cannot run with; the message is one line."""


def measured_on(machine: dict[str, Any]) -> list[str]:
    """The line that says where the numbers of a section come from."""
    return [
        f"Measured on {machine['cpu']}, {machine['cores']} cores, {machine['started'][:10]}, with a load of "
        f"{machine['load']:.1f} at the start.", "",
    ]  # fmt: skip


def put(page: Path, name: str, lines: Sequence[str]) -> None:
    """Write lines between the marks of a section; a page without these marks gets them at its end."""
    text = page.read_text() if page.exists() else ""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    if begin not in text:
        text += f"{begin}{end}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    marks = re.compile(f"({begin}).*?({end})", re.DOTALL)
    page.write_text(marks.sub(lambda m: m[1] + "\n".join(lines) + "\n\n" + m[2], text))
