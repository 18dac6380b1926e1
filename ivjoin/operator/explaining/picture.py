"""Draw an explanation: a box for each operator with its possible values, and the stored rows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from textwrap import shorten, wrap

__all__ = ["Box", "Explanation"]

_CHAR, _LINE, _PAD, _GAP, _LEVEL = 7.3, 16, 8, 14, 46  # pixels
_LONGEST = 44  # greatest number of characters in a line of a box
_COLOURS = {"left": "#dbeafe", "right": "#ffedd5", "both": "#f3f4f6", "none": "#ffffff"}
_INK, _LINES = "#1f2937", "#9ca3af"


@dataclass(frozen=True)
class Box:
    """An operator of the condition, as drawn in the picture."""

    name: str
    label: str  # its symbol or function, or the column
    values: str  # its possible values for future rows
    args: tuple[str, ...]  # names of the boxes of its operands
    side: str  # left, right, both or none


class Explanation(str):
    """The text of an explanation. ``svg()`` and ``mermaid()`` return a picture, which a notebook shows."""

    boxes: tuple[Box, ...]
    state: tuple[str, ...]

    def __new__(cls, text: str, boxes: tuple[Box, ...] = (), state: tuple[str, ...] = ()) -> Explanation:
        self = super().__new__(cls, text)
        self.boxes, self.state = boxes, state
        return self

    def __repr__(self) -> str:
        """Return the text itself, so that an interactive session shows its lines."""
        return str(self)

    def __reduce__(self) -> tuple[type[Explanation], tuple[str, tuple[Box, ...], tuple[str, ...]]]:
        return Explanation, (str(self), self.boxes, self.state)

    def with_line(self, line: str) -> Explanation:
        """Return the explanation with a line inserted after its first line."""
        first, rest = self.split("\n", 1)
        return Explanation(f"{first}\n{line}\n{rest}", self.boxes, self.state)

    def mermaid(self) -> str:
        """Return the condition as a Mermaid flowchart, which Markdown viewers draw."""
        out = ["flowchart BT"]
        for b in self.boxes:
            text = "<br/>".join(_quoted(t) for t in (b.label, b.values) if t)
            out.append(f'    {b.name}["{text}"]:::{b.side}')
        out += [f"    {a} --> {b.name}" for b in self.boxes for a in dict.fromkeys(b.args)]
        if self.state:
            out.append(f'    state["{"<br/>".join(_quoted(s) for s in self.state)}"]:::none')
            if self.boxes:
                out.append(f"    {self.boxes[-1].name} -.- state")
        used = dict.fromkeys([*(b.side for b in self.boxes), *(["none"] if self.state else [])])
        out += [f"    classDef {side} fill:{_COLOURS[side]},stroke:{_LINES},color:{_INK}" for side in used]
        return "\n".join(out) + "\n"

    def svg(self) -> str:
        """Return an SVG picture: the condition at the top, its columns below, and the stored rows at the bottom."""
        rows = self._rows()
        sizes = {b.name: _size(b) for b in self.boxes}
        width = max([sum(sizes[b.name][0] + _GAP for b in row) + _GAP for row in rows], default=200.0)
        notes = [line for s in self.state for line in wrap(s, 110, subsequent_indent="    ")]
        width = max(width, *(len(n) * _CHAR + 2 * _GAP for n in notes), 240.0) if notes else max(width, 240.0)
        places: dict[str, tuple[float, float]] = {}
        y = float(_GAP)
        for row in rows:
            x = (width - sum(sizes[b.name][0] + _GAP for b in row) + _GAP) / 2
            for b in row:
                places[b.name] = x, y
                x += sizes[b.name][0] + _GAP
            y += max(sizes[b.name][1] for b in row) + _LEVEL
        y = y - _LEVEL + 2 * _GAP if rows else y
        height = y + len(notes) * _LINE + _GAP
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-monospace, Menlo, Consolas, monospace" '
            f'font-size="12" role="img">',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        ]
        for b in self.boxes:
            for a in dict.fromkeys(b.args):
                x1, y1 = places[a][0] + sizes[a][0] / 2, places[a][1]
                x2, y2 = places[b.name][0] + sizes[b.name][0] / 2, places[b.name][1] + sizes[b.name][1]
                out.append(f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="{_LINES}"/>')
        for b in self.boxes:
            out += _drawn(b, *places[b.name], *sizes[b.name])
        for i, line in enumerate(notes):
            indent = len(line) - len(line.lstrip())
            out.append(
                f'<text x="{_GAP + indent * _CHAR:.0f}" y="{y + (i + 1) * _LINE:.0f}" fill="{_INK}">'
                f"{escape(line.strip())}</text>"
            )
        return "\n".join([*out, "</svg>"]) + "\n"

    def _repr_html_(self) -> str:
        drawn = f'<div style="overflow-x:auto">{self.svg()}</div>' if self.boxes else ""
        return f"{drawn}<details><summary>in words</summary><pre>{escape(str(self))}</pre></details>"

    def _rows(self) -> list[list[Box]]:
        """Return the boxes by their distance from the root. Each row is sorted by the boxes that read it."""
        level: dict[str, int] = {b.name: 0 for b in self.boxes}
        for b in reversed(self.boxes):  # operands precede the boxes that read them
            for a in b.args:
                level[a] = max(level[a], level[b.name] + 1)
        rows: list[list[Box]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
        for b in self.boxes:
            rows[level[b.name]].append(b)
        at: dict[str, float] = {}
        for row in rows:
            row.sort(key=lambda b: _middle([at[p.name] for p in self.boxes if b.name in p.args and p.name in at]))
            at |= {b.name: (i + 0.5) / len(row) for i, b in enumerate(row)}
        return rows


def _middle(places: list[float]) -> float:
    return sum(places) / len(places) if places else 0.5


def _texts(b: Box) -> list[str]:
    return [shorten(t, _LONGEST, placeholder="...") for t in (b.label, b.values) if t]


def _size(b: Box) -> tuple[float, float]:
    texts = _texts(b)
    return max(len(t) for t in texts) * _CHAR + 2 * _PAD, len(texts) * _LINE + _PAD


def _drawn(b: Box, x: float, y: float, w: float, h: float) -> list[str]:
    out = [
        f'<g><title>{escape(f"{b.label}: {b.values}")}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" rx="4" fill="{_COLOURS[b.side]}" '
        f'stroke="{_LINES}"/>'
    ]
    for i, text in enumerate(_texts(b)):
        weight = ' font-weight="bold"' if i == 0 else ""
        out.append(
            f'<text x="{x + w / 2:.0f}" y="{y + (i + 1) * _LINE - 1:.0f}" text-anchor="middle" fill="{_INK}"{weight}>'
            f"{escape(text)}</text>"
        )
    return [*out, "</g>"]


def _quoted(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
