"""The table of operators: what each record says, and what its interval rule does on the record's examples.

    python -m bench.operators            # as docs/operators.md holds it
    python -m bench.operators --write    # into docs/operators.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa

from ivjoin.expr import Scope, scalar
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import named, to_arrow
from ivjoin.operators.record import COLUMNS, Absent, Call, Operator
from ivjoin.operators.table import FAMILIES, operator_of
from ivjoin.propagation.rules import rule_of

__all__ = ["NESTED", "SCHEMA", "directions", "examples", "main", "reasons", "table"]

PAGE = Path(__file__).parent.parent / "docs" / "operators.md"
NESTED = {
    "st": pa.struct([("q", pa.int64()), ("name", pa.string()), ("inner", pa.struct([("w", pa.float64())]))]),
    "xs": pa.list_(pa.int64()), "ss": pa.list_(pa.string()), "mp": pa.map_(pa.string(), pa.int64()),
    "md": pa.month_day_nano_interval(),
}  # fmt: skip
SCHEMA = pa.schema([*((name, to_arrow(named(t))) for name, t in COLUMNS.items()), *NESTED.items()])
_HEAD = """# Operators

What each operator of a condition has. This page is written by `python -m bench.operators --write` from the records in
`ivjoin/operators/`, where an operator is defined; a test walks the same records and compares each with what it does.

- **exact**: the evaluator computes it, on arguments of these kinds (`*`: of any its constructor lets through).
- **up**, **down**: intervals of its arguments give one of its value, and an interval of its value narrows them: this is
  what prunes. *some*: for some arguments.
- **order**: it passes a declared order on. **linear**: it is taken apart in sums.
- **text**: it is written as SQL that reads back as the same expression.

What an operator has not is said below, with the reason. [Adding one](adding-an-operator.md) takes one record.

Where an operator's parts live:

| part | where |
|---|---|
| its record | `ivjoin/operators/`, in the file of its family, under the headings below |
| the node, its type, how arguments meet | `ivjoin/expr/build/` |
| exact values | `ivjoin/expr/kernels/` |
| interval rules | `ivjoin/operators/rules_*.py`, over the pairs of bounds of `ivjoin/interval/machine/` |
| which order it passes on, where it is a sum | `ivjoin/operators/direction.py`, `ivjoin/operators/linear.py` |
| what reads it | `ivjoin/expr/read/`: SQL text, SymPy, Python's operators |
| what a join makes of it | `ivjoin/separation/` |
"""


@cache
def examples(operator: Operator) -> tuple[tuple[str, Node], ...]:
    """The record's examples, each with the first node of the operator in it."""
    scope, out = Scope(SCHEMA, SCHEMA), []
    for text in operator.examples:
        found = [n for n in walk(scalar(text, scope)) if n.args and operator_of(n) is operator]
        assert found, f"{text} has no {operator.name}"
        out.append((text, found[-1]))
    return tuple(out)


def directions(node: Node) -> tuple[bool, bool]:
    """Whether the node's interval rule goes up, and down."""
    order = {n: i for i, n in enumerate(walk(node))}
    rule = rule_of(node, order[node], tuple(order[a] for a in node.args))
    return rule.forward is not None, rule.backward is not None


def _shown(found: list[bool]) -> str:
    return "yes" if found and all(found) else "some" if any(found) else "-"


def reasons(operator: Operator) -> Iterator[tuple[str, str]]:
    """What the operator has not, and why."""
    for meaning in dict.fromkeys(operator.meanings.values()):
        if isinstance(meaning.bounds, Absent):
            yield "up, down", meaning.bounds.why
        if meaning.no_forward:
            yield "up", meaning.no_forward
        if meaning.no_backward:
            yield "down", meaning.no_backward
    for name, value in (("order", operator.direction), ("linear", operator.linear), ("SymPy", operator.sympy)):
        if isinstance(value, Absent):
            yield name, value.why


def _row(operator: Operator) -> str:
    found = [directions(n) for _, n in examples(operator)]
    if not found:
        found = [(not isinstance(m.bounds, Absent),) * 2 for m in operator.meanings.values()]
    cells = [
        f"`{operator.name}`",
        ", ".join(f"`{e}`".replace("|", "\\|") for e in operator.examples[:2]) or "made by bands alone",
        ", ".join(operator.meanings).replace("*", "\\*"),
        _shown([up for up, _ in found]), _shown([down for _, down in found]),
        "-" if isinstance(operator.direction, Absent) else "yes",
        "-" if isinstance(operator.linear, Absent) else "yes",
        "-" if isinstance(operator.sympy, Absent) else operator.sympy,
        "-" if operator.inner else "yes",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _names(calls: tuple[Call, ...]) -> str:
    return ", ".join(f"`{name}`" for c in calls for name in c.names)


def table() -> str:
    """The whole page."""
    out = [_HEAD]
    for name, family in FAMILIES.items():
        out += [
            f"## {name.capitalize()}", "",
            "| operator | such as | exact | up | down | order | linear | SymPy | text |",
            "|---|---|---|---|---|---|---|---|---|", *map(_row, family.OPERATORS), "",
        ]  # fmt: skip
        if family.SPELLINGS:
            out += [f"Written with these: {_names(family.SPELLINGS)}.", ""]
        why: dict[tuple[str, str], list[str]] = {}
        for operator in family.OPERATORS:
            for what, reason in dict.fromkeys(reasons(operator)):
                why.setdefault((what, reason), []).append(f"`{operator.name}`")
        out += [f"- no *{what}* of {', '.join(names)}: {reason}." for (what, reason), names in why.items()]
        out.append("")
    return "\n".join(out)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/operators.md")
    if parser.parse_args(argv).write:
        PAGE.write_text(table())
    else:
        print(table())
    return 0


