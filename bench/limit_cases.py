"""The rows and the joins of ``python -m bench.limit``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["CASES", "ROWS", "WINDOW", "Case", "batch_of", "batches_of", "question_of", "whole_of"]

ROWS, WINDOW, KEYS = 10_000_000, 500_000, 1_000_000
_WORDS = 1000


@dataclass(frozen=True)
class Case:
    """What rows are and how they come.

    Attributes
    ----------
    way : str
        A key of ``WAYS``.
    payload : {"fixed", "text", "struct", "list", "dictionary"}
        Some 80 to 100 bytes of each row.
    key : {"number", "text", "few", "none"}
        A thousandth as many, and a second band, where they are few.
    full : {"spill", "raise", "shed"}
    residual : bool
        Whether something is left to be decided pair by pair.
    how : str
    batch : int
        Rows of a batch.
    """

    way: str
    payload: str = "fixed"
    key: str = "number"
    full: str = "spill"
    residual: bool = False
    how: str = "inner"
    batch: int = 8192


CASES: dict[str, Case] = {
    "push; dictionary": Case("push", "dictionary"),
    "push; struct": Case("push", "struct"),
    "push; no key": Case("push", key="none"),
    "one push": Case("one push"),
    "one push; list": Case("one push", "list"),
    "three inputs, pushed": Case("many pushed"),
    "three inputs": Case("many"),
    "threads, streams": Case("threads"),
    "threads, tables": Case("threads, tables"),
    "tables out of order": Case("out of order"),
    "tables": Case("tables", "text"),
    "files": Case("files", "text"),
    "files out of order": Case("files out of order", "text"),
    "command line": Case("command line", "text"),
    "push; 80 bytes": Case("push"),
    "push; text": Case("push", "text"),
    "push; list": Case("push", "list"),
    "push; text keys": Case("push", key="text"),
    "push; few keys": Case("push", key="few"),
    "push; residual": Case("push", residual=True),
    "push; full": Case("push", "text", how="full"),
    "push; 256 rows": Case("push", batch=256),
    "streams": Case("pull", "text"),
    "streams; list": Case("pull", "list"),
    "as-of, tables out of order": Case("as-of", "text"),
    "as-of, files out of order": Case("as-of, files", "text"),
    "as-of, pushed": Case("as-of, pushed", "text"),
    "windows": Case("windows", "text"),
    "push; raise": Case("push", "text", full="raise"),
    "push; shed": Case("push", "text", full="shed"),
    "push; shed, list": Case("push", "list", full="shed"),
}


# -- rows ----------------------------------------------------------------------------------------------------------


def _payload(kind: str, rng: np.random.Generator, n: int) -> pa.Array:
    if kind == "fixed":
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(80), n, [None, pa.py_buffer(rng.random(10 * n))])
    if kind == "list":
        return pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * 10, pa.array(rng.random(10 * n)))
    words, which = _words(), pa.array(rng.integers(0, _WORDS, n), pa.int32())
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(which, words)
    text = words.take(which)
    return text if kind == "text" else pa.StructArray.from_arrays([pa.array(rng.random(n)), text], ["a", "b"])


def _words() -> pa.Array:
    return pa.array([f"{x:08d}" * 12 for x in range(_WORDS)])


def batch_of(case: Case, share: float, i: int, side: int, n: int) -> pa.RecordBatch:
    """The i-th n rows of a side."""
    rng = np.random.default_rng((i, side))
    keys = max(2, int(KEYS * share / (1000 if case.key == "few" else 1)))
    k = pa.array(rng.integers(0, keys, n))
    if case.key == "text":
        k = pa.compute.binary_join_element_wise(k.cast(pa.string()), "a key of text", " ")
    t = np.arange(i * n, i * n + n)
    return pa.record_batch({"k": k, "t": t, "u": rng.random(n), "p": _payload(case.payload, rng, n)})


def batches_of(case: Case, share: float, rows: int, side: int) -> Iterator[pa.RecordBatch]:
    for i in range(max(1, rows // case.batch)):
        yield batch_of(case, share, i, side, case.batch)


def whole_of(case: Case, share: float, rows: int, side: int, shuffled: bool) -> pa.Table:
    out = pa.Table.from_batches(batches_of(case, share, rows, side))
    return out.take(pa.array(np.random.default_rng(side).permutation(len(out)))) if shuffled else out


def question_of(case: Case, share: float, ordered: bool = True) -> dict[str, Any]:
    window = max(10, int(WINDOW * share))
    condition = f"abs(l.t - r.t) <= {window}"
    if case.key == "none":
        condition += f" AND abs(l.u - r.u) < {0.3 / window}"
    elif case.key == "few":
        condition += " AND abs(l.u - r.u) < 0.002"
    if case.residual:
        condition += " AND (l.u < r.u OR l.p <> r.p)"
    asked: dict[str, Any] = {"condition": condition, "how": case.how}
    if case.key != "none":
        asked["on"] = "k"
    return asked | ({"left_order": "t", "right_order": "t"} if ordered else {})
