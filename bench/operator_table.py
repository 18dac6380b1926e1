"""Write the table of operators from their records. The interval rules are tried on the examples of the records.

    python -m bench.operators            # print docs/operators.md
    python -m bench.operators --write    # write docs/operators.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa

from ivjoin.conditions import scalar
from ivjoin.expr import Scope
from ivjoin.expr.nodes import Node, walk
from ivjoin.expr.types import named, to_arrow
from ivjoin.functions.records.record import COLUMNS, Absent, Call, Operator
from ivjoin.functions.table import FAMILIES, operator_of
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

This page lists the operators and functions that a condition can use, and what ivjoin can do with each one.
Look here to see whether a function prunes. `python -m bench.operators --write` writes the page from the records in
`ivjoin/functions/`, and a test compares each record with what its operator does.
[Adding an operator](internals/adding-an-operator.md) shows how to write a record.

| column | meaning |
|---|---|
| such as | expressions that contain the operator |
| exact | the kinds of arguments that ivjoin can evaluate; `*` means all kinds that the function accepts |
| up | ivjoin computes an interval of the value from intervals of the arguments, to prune by the value |
| down | ivjoin narrows intervals of the arguments by an interval of the value, to prune by a column inside |
| order | if an argument has a declared order, ivjoin can derive an order of the value |
| linear | ivjoin can move sums and multiples to the other side, as in `l.a + 5 <= r.b` |
| SymPy | the class of SymPy that is read as this operator |
| text | ivjoin can write it as SQL that reads back as the same expression |

*some* means that this is true for some arguments, and `-` means that the part is missing. A second table below each
family gives the reasons.
"""


@cache
def examples(operator: Operator) -> tuple[tuple[str, Node], ...]:
    """Return the examples of the record, each with the operator's node in it."""
    scope, out = Scope(SCHEMA, SCHEMA), []
    for text in operator.examples:
        found = [n for n in walk(scalar(text, scope)) if n.args and operator_of(n) is operator]
        assert found, f"{text} has no {operator.name}"
        out.append((text, found[-1]))
    return tuple(out)


def directions(node: Node) -> tuple[bool, bool]:
    """Return whether the node's interval rule goes up, and whether it goes down."""
    order = {n: i for i, n in enumerate(walk(node))}
    rule = rule_of(node, order[node], tuple(order[a] for a in node.args))
    return rule.forward is not None, rule.backward is not None


def _shown(found: list[bool]) -> str:
    return "yes" if found and all(found) else "some" if any(found) else "-"


def reasons(operator: Operator) -> Iterator[tuple[str, str]]:
    """Yield the missing parts of an operator, each with the reason."""
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
        ", ".join(f"`{e}`".replace("|", "\\|") for e in operator.examples[:2]) or "created for bands over floats",
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
    """Return the page."""
    out = [_HEAD]
    for name, family in FAMILIES.items():
        out += [
            f"## {name.capitalize()}", "",
            "| operator | such as | exact | up | down | order | linear | SymPy | text |",
            "|---|---|---|---|---|---|---|---|---|", *map(_row, family.OPERATORS), "",
        ]  # fmt: skip
        if family.SPELLINGS:
            out += [f"These functions are built from the operators above: {_names(family.SPELLINGS)}.", ""]
        why: dict[tuple[str, str], list[str]] = {}
        for operator in family.OPERATORS:
            for what, reason in dict.fromkeys(reasons(operator)):
                why.setdefault((what, reason), []).append(f"`{operator.name}`")
        out += ["| missing | operators | reason |", "|---|---|---|"]
        out += [f"| {what} | {', '.join(names)} | {reason} |" for (what, reason), names in why.items()]
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


