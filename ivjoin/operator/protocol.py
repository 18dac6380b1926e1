"""Who may call an operator, and when: one call at a time, and each call's output taken before the next one."""

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
    """An operator that works at one call at a time, and stops for good when one did not come to its end.

    ``_busy`` is set by ``busy, op._busy = op._busy, True`` and no lock: Python neither turns to another thread nor
    raises KeyboardInterrupt within such a line, while either may happen as ``acquire`` or ``release`` return. So a call
    that was interrupted has let go, and what it was about to return is lost only with an operator that has stopped.
    """

    def _begin(self) -> None:
        self._busy = False
        self._stopped: str | None = None  # why no call is taken any more
        self._pending: str | None = None  # the call whose output is not yet taken

    def __reduce__(self) -> NoReturn:
        raise TypeError("an operator cannot be pickled or copied; take its snapshot(), and restore() that")

    def _enter(self, between: bool = True) -> None:
        """Begin a call; whoever enters sets ``_busy`` to False in the end, whatever happens.

        ``between`` False: it may come while output is being taken.
        """
        busy, self._busy = self._busy, True
        if busy:
            raise ProtocolError(BUSY)
        if self._stopped is not None or (between and self._pending is not None):
            self._busy = False
            raise ProtocolError(self._stopped or _NOT_TAKEN.format(self._pending))

    def _start(self, call: str, steps: Iterator[pa.RecordBatch]) -> Output:
        """Run up to the first output, so that a call without output needs no draining."""
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
        """Whether a call that ends with this error has left nothing half done: the operator can go on."""
        return False

    def _stop(self, error: BaseException) -> None:
        """A call broke off in the middle: what it would still have done is lost."""
        if self._stopped is None:
            why = str(error) or type(error).__name__
            self._stopped = f"this operator stopped with an error and cannot go on: {why}"
            self._let_go()

    def _abandon(self) -> None:
        """A call's output was given up; called from any thread, also by the garbage collector."""
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
        """Count what a step has left behind."""
        raise NotImplementedError

    def _gave(self, batch: pa.RecordBatch) -> None:
        """Count a batch that was taken."""
        raise NotImplementedError

    def _let_go(self) -> None:
        """Release the state of an operator that has stopped."""
        raise NotImplementedError


def of_one_process(op: OneCall) -> None:
    """Let an operator stop in processes that are forked from this one, which would write to the same files."""
    _in_files.add(op)


def _forked() -> None:
    for op in _in_files:
        op._stopped = op._stopped or _FORKED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Output:
    """The output of one call of an operator: an iterator of RecordBatches, to be taken to its end.

    Until it has said that it is at its end, the operator takes no other call. One that is closed, or dropped with its
    last reference, before that stops the operator: its rows would be missing from the result without a trace.
    """

    __slots__ = ("_batch", "_op", "_steps")

    def __init__(
        self, op: OneCall | None, batch: pa.RecordBatch | None, steps: Iterator[pa.RecordBatch] | None = None
    ) -> None:
        self._op = op  # None: at its end
        self._batch = batch  # made already
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
        """Give up the rest of the output; the operator takes no further call, unless this was at its end.

        Raises
        ------
        ProtocolError
            If another thread is at work with the operator.
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
    "this operator is used by another thread at this moment, or by a call further up in this one; wait until that call "
    "has returned, or give each thread an operator of its own"
)
_NOT_TAKEN = "the output of the last {} was not taken to its end; drain its iterator first"
_ABANDONED = (
    "the output of the last {} was abandoned: its iterator was closed or dropped before its end, and what it would "
    "still have given is lost, so this operator cannot go on; restore it from a snapshot. Take every output to its "
    "end: a `for` loop that is left by `break` drops its iterator, unless a name holds it"
)
_FORKED = (
    "this process was forked from the one that made this operator, and both would write to the files to which it "
    "spills; restore it from a snapshot that was taken before"
)

NOTHING = Output(None, None)
"""The output of a call that gives none."""
