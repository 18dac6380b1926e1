"""Estimate rows, distinct values and value ranges of columns from a sample of tables in memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ivjoin.conditions.evaluate import evaluate
from ivjoin.expr.nodes import Node, columns_of
from ivjoin.expr.ordinal import has_ordinal, ordinals
from ivjoin.multi.question import MultiSpec
from ivjoin.multi.shape.steps import equal_classes
from ivjoin.multi.shape.trees import Seen
from ivjoin.outer.values import has_value
from ivjoin.stream.sort.axis import rows_of
from ivjoin.stream.sources.inputs import Source

__all__ = ["seen_of"]

_SAMPLE_ROWS = 4096


def seen_of(spec: MultiSpec, sources: Mapping[str, Source | None]) -> dict[str, Seen]:
    """Return the number of rows of each input. For tables in memory, add the distinct values and spans of a sample."""
    asked: dict[str, set[Node]] = {a: set() for a in spec.aliases}
    for c in equal_classes(spec):
        for alias, node in c:
            asked[alias].add(node)
    names = {f"{a}_{n}": (a, n) for a in spec.aliases for n in spec.schemas[a].names}
    for column in columns_of(*(p.node for p in spec.parts)):
        asked[names[column.params[1]][0]].add(column)
    out = {}
    for alias, source in sources.items():
        if source is None or source.rows is None:
            continue
        distinct: dict[Node, float] = {}
        span: dict[Node, float] = {}
        top: dict[Node, float] = {}
        if source.in_memory and source.rows:
            table = source.table()
            at = np.unique(np.random.default_rng(0).integers(0, source.rows, _SAMPLE_ROWS))
            wanted = list(dict.fromkeys(names[c.params[1]][1] for n in asked[alias] for c in columns_of(n)))
            rows = rows_of(table.select(wanted), at)
            for node in asked[alias]:
                found = _look(node, rows, alias, source.rows)
                if found is not None:
                    distinct[node], top[node], reach = found
                    if reach is not None:
                        span[node] = reach
        out[alias] = Seen(float(source.rows), distinct, span, top)
    return out


def _look(node: Node, rows: pa.RecordBatch, alias: str, whole: int) -> tuple[float, float, float | None] | None:
    """Return the number of distinct values, the share of the most frequent one, and the span of ordered values.

    The number is the guaranteed-error estimate (Charikar et al., PODS 2000). Return None if the values cannot be
    counted.
    """
    v = evaluate([node], lambda _, name: rows.column(name.removeprefix(f"{alias}_")), rows.num_rows)[0]
    span: float | None = None
    if not has_ordinal(node.type):
        values = v.values if isinstance(v.values, (pa.Array, pa.ChunkedArray)) else None
        if values is None or pa.types.is_nested(values.type):
            return None
        counts = np.asarray(values.value_counts().field("counts"))
    else:
        image = ordinals(v.values, node.type)
        present = has_value(v)
        image = image if present is None else image[present]
        if not len(image):
            return None
        counts = np.unique(image, return_counts=True)[1]
        span = float(image.max()) - float(image.min())
    once = int((counts == 1).sum())
    distinct = float(np.sqrt(whole / rows.num_rows) * once + len(counts) - once)
    return distinct, float(counts.max() / counts.sum()), span
