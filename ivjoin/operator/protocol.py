"""Enforce the protocol of an operator: one call at a time, and all output is read before the next call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn
from weakref import WeakSet

import pyarrow as pa

from ivjoin.errors import ProtocolError

__all__ = ["BUSY", "NOTHING", "OneCall", "Output", "of_one_process"]

_in_files: WeakSet[OneCall] = WeakSet()


class OneCall:
    """An operator that runs one call at a time, and stops for good if a call does not complete.

    ``busy, op._busy = op._busy, True`` sets the flag without a lock. Within such a line Python neither switches threads
    nor raises KeyboardInterrupt. Both can happen when ``acquire`` or ``release`` of a lock returns. An interrupted call
    therefore never leaves the flag set, and only a stopped operator loses output.
    """

    def _begin(self) -> None:
        self._busy = False
        self._stopped: str | None = None  # why the operator accepts no more calls
        self._pending: str | None = None  # the call whose output is not fully read yet

    def __reduce__(self) -> NoReturn:
        raise TypeError("an operator cannot be pickled or copied; take its snapshot(), and restore() that")

    def _enter(self, between: bool = True) -> None:
        """Begin a call. The caller must set ``_busy`` to False at the end.

        ``between``: whether all output of the last call must have been read.
        """
        busy, self._busy = self._busy, True
        if busy:
            raise ProtocolError(BUSY)
        if self._stopped is not None or (between and self._pending is not None):
            self._busy = False
            raise ProtocolError(self._stopped or _NOT_TAKEN.format(self._pending))

    def _start(self, call: str, steps: Iterator[pa.RecordBatch]) -> Output:
        """Run up to the first output batch, so that a call without output need not be drained."""
        first = self._next(steps)
        return NOTHING if first is None else self._output(call, first, steps)

    def _output(self, call: str, first: pa.RecordBatch, steps: Iterator[pa.RecordBatch] | None = None) -> Output:
        self._pending = call
        try:
            return Output(self, first, steps)
        except BaseException as e:
            self._stop(e)
            raise

    def _next(self, steps: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        try:
            batch = next(steps, None)
            self._stepped(batch is None)
        except BaseException as e:
            if self._spares(e):
                self._pending = None
            else:
                self._stop(e)
            raise
        return batch

    def _spares(self, error: BaseException) -> bool:
        """Return whether the failed call changed nothing, so that the operator can continue."""
        return False

    def _stop(self, error: BaseException) -> None:
        """Stop the operator after a call failed midway, because the rest of its output is lost."""
        if self._stopped is None:
            why = str(error) or type(error).__name__
            self._stopped = f"this operator stopped with an error and cannot go on: {why}"
            self._let_go()

    def _abandon(self) -> None:
        """Stop the operator after its output was abandoned. Any thread or the garbage collector may call this."""
        if self._stopped is not None:
            return
        self._stopped = _ABANDONED.format(self._pending)
        busy, self._busy = self._busy, True
        if not busy:
            try:
                self._let_go()
            finally:
                self._busy = False

    def _stepped(self, ended: bool) -> None:
        """Record the size of the state after a step."""
        raise NotImplementedError

    def _gave(self, batch: pa.RecordBatch) -> None:
        """Count a batch that the caller has received."""
        raise NotImplementedError

    def _let_go(self) -> None:
        """Release the state of an operator that has stopped."""
        raise NotImplementedError


def of_one_process(op: OneCall) -> None:
    """Stop the operator in processes that are forked from this one, because they would write to the same files."""
    _in_files.add(op)


def _forked() -> None:
    for op in _in_files:
        op._stopped = op._stopped or _FORKED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Output:
    """The output of one call of an operator: an iterator of RecordBatches.

    Iterate until StopIteration before the next call. If the iterator is closed or deleted earlier, the operator stops,
    because the result would silently lack rows.
    """

    __slots__ = ("_batch", "_op", "_steps")

    def __init__(
        self, op: OneCall | None, batch: pa.RecordBatch | None, steps: Iterator[pa.RecordBatch] | None = None
    ) -> None:
        self._op = op  # None after the last batch
        self._batch = batch  # built before the caller requests it
        self._steps = steps

    def __iter__(self) -> Output:
        return self

    def __next__(self) -> pa.RecordBatch:
        op = self._op
        if op is None:
            raise StopIteration
        busy, op._busy = op._busy, True
        if busy:
            raise ProtocolError(BUSY)
        try:
            if op._stopped is not None:
                raise ProtocolError(op._stopped)
            batch = self._batch
            if batch is None and self._steps is not None:
                batch = op._next(self._steps)
            if batch is not None:
                op._gave(batch)
                self._batch = None
                return batch
            op._pending = self._op = self._steps = None
        except BaseException as e:
            if op._pending is None and op._stopped is None:
                self._op = self._steps = None
            else:
                op._stop(e)
            raise
        finally:
            op._busy = False
        raise StopIteration

    def close(self) -> None:
        """Abandon the rest of the output. The operator stops, unless all output was taken.

        Raises
        ------
        ProtocolError
            If another thread uses the operator.
        """
        op = self._op
        if op is None:
            return
        if op._busy:
            raise ProtocolError(BUSY)
        self._op = self._batch = self._steps = None
        op._abandon()

    def __del__(self) -> None:
        op = self._op
        if op is not None:
            self._op = self._batch = self._steps = None
            op._abandon()


BUSY = (
    "another thread, or a call further up in this thread, is using this operator; wait until that call has returned, "
    "or give each thread its own operator"
)
_NOT_TAKEN = "the output of the last {} was not taken to its end; drain its iterator first"
_ABANDONED = (
    "the output of the last {} was abandoned: its iterator was closed or deleted before its end. The rest of the "
    "output is lost, so this operator cannot continue; restore it from a snapshot. Take every output to its "
    "end: a `for` loop that is left by `break` deletes its iterator, unless a variable refers to it"
)
_FORKED = (
    "this process was forked from the one that made this operator, and both would write to the same spill files; "
    "restore it from a snapshot that was taken before the fork"
)

NOTHING = Output(None, None)
"""The output of a call without output."""
