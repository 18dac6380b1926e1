"""Tables of key ids for pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ivjoin.operator.sources import SideSources
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.shj.store.account import Account
from ivjoin.shj.store.keys import ByteKeys, IntKeys, KeyTable, NoKeys, WordKeys

__all__ = ["key_table", "most_bytes"]


def key_table(plan: JoinPlan, operator: np.ndarray, account: Account | None = None) -> KeyTable:
    """Return an empty table for the keys of a plan, whose registers are in an operator's record."""
    if plan.int_keys:
        return IntKeys(operator, account)
    if plan.word_keys:
        return WordKeys(len(plan.null_safe) + sum(plan.null_safe), operator, account)
    return (ByteKeys if plan.null_safe else NoKeys)(operator, account)


def most_bytes(sources: SideSources, batch: pa.RecordBatch) -> int:
    """Return an upper bound of the bytes of the keys of a batch that kernels pack."""
    if sources.pieces is None:
        return 0
    columns = {int(column) for column in sources.pieces["column"] if column >= 0}
    each = 8 + 12 * len(sources.pieces)
    return 16 + each * batch.num_rows + sum(int(batch.column(i).nbytes) for i in columns)
