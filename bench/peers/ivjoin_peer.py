"""ivjoin through its public API: pushed batch by batch, and pulled from whole tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.case import Case
from bench.peers.base import Peer, Take, in_turn

__all__ = ["IvjoinPull", "IvjoinPush"]


def _options(case: Case) -> dict[str, Any]:
    from ivjoin import Order

    order = Order(case.band.column, slack=case.slack or None)
    return {
        "on": list(case.on) or None, "condition": case.condition, "how": case.how, "left_order": order,
        "right_order": order,
    }


class IvjoinPush(Peer):
    """``SymmetricHashJoin`` fed with batches of both sides in turn."""

    name: ClassVar[str] = "ivjoin"
    packages: ClassVar[tuple[str, ...]] = ("ivjoin", "numba")
    streaming: ClassVar[bool] = True

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        import ivjoin

        _ = ivjoin.SymmetricHashJoin  # loads it: a user's program has done so before its data comes
        self._options = _options(case)
        self._schemas = left.schema, right.schema
        self._pushes = in_turn(left, right, batch or 4096)

    def run(self, take: Take) -> None:
        from ivjoin import SymmetricHashJoin

        op = SymmetricHashJoin(*self._schemas, **self._options)
        push = op.push
        for side, batch in self._pushes:
            for out in push(side, batch):
                take(out)
        for out in op.finish():
            take(out)
        self._metrics = op.metrics

    def beside(self, slow: bool = False) -> dict[str, Any]:
        m = self._metrics
        return {"peak_state_rows": m.peak_state_rows, "peak_state_bytes": m.peak_state_bytes}


class IvjoinPull(Peer):
    """``band_join`` over two whole tables, batch sizes of its own choosing."""

    name: ClassVar[str] = "ivjoin band_join"
    packages: ClassVar[tuple[str, ...]] = ("ivjoin", "numba")

    def prepare(self, case: Case, left: pa.Table, right: pa.Table, batch: int | None, folder: Path) -> None:
        self._options = _options(case)
        self._tables = left, right

    def run(self, take: Take) -> None:
        from ivjoin import band_join

        stream = band_join(*self._tables, **self._options)
        for out in stream:
            take(out)
        self._metrics = stream.metrics

    def beside(self, slow: bool = False) -> dict[str, Any]:
        m = self._metrics
        return {"peak_state_rows": m.peak_state_rows, "peak_state_bytes": m.peak_state_bytes}
