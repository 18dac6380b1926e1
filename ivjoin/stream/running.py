"""Run a join, independent of the stream that the caller reads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivjoin.files.atomic import first_line
from ivjoin.operator.explaining.picture import Explanation

if TYPE_CHECKING:
    from ivjoin.expr.literals import Value
    from ivjoin.files.overwriting import InputFiles

Change = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

__all__ = ["CLOSED", "ENDED", "Change", "Run", "stopped_by"]

CLOSED = "this stream was closed and gives nothing more"
ENDED = "the output was read to its end, and can be read only once: store what you read, or join again"


def stopped_by(error: BaseException) -> str:
    """Return why a stream that stopped with an error returns no more batches."""
    return f"this stream stopped with an error and gives nothing more: {first_line(error)}"


class Run:
    """A running join: it reads the inputs and yields the output.

    It does not refer to the stream or its generator. A stream that the caller drops is therefore freed at once, with
    its threads, files and rows.

    - ``over`` is the reason why no more batches follow, and ``broken`` whether it is an error.
    - ``schema`` describes the batches before ``change``.
    - ``read_from`` are the files of each input, if known.
    """

    over: str | None = None
    broken = False
    change: Change | None = None  # a change of the output batches
    skipped: tuple[int, int] | None = None  # row groups of each side
    sorting = ""  # how inputs without an order were processed
    operator: Any  # joins the two inputs
    schema: pa.Schema
    read_from: Sequence[InputFiles | None]

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the output. Call this once."""
        try:
            yield from self.output() if self.change is None else self.change(self.output())
            self.over = ENDED
        except GeneratorExit:
            self.over = self.over or CLOSED
            raise
        except BaseException as e:
            self.over, self.broken = stopped_by(e), True
            raise
        finally:
            self.release()

    def output(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def release(self) -> None:
        """Stop threads and release the inputs.

        This neither waits for a thread nor acquires a lock, because the cyclic collector may call it from any thread.
        """
        raise NotImplementedError

    @property
    def metrics(self) -> Any:
        raise NotImplementedError

    @property
    def question(self) -> str:
        """Return a description of the join."""
        raise NotImplementedError

    def explain(self) -> Explanation:
        raise NotImplementedError

    def output_bounds(self) -> dict[str, tuple[Value | None, Value | None]]:
        raise NotImplementedError
