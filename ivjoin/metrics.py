"""What the operator counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["JoinMetrics", "MultiJoinMetrics"]


@dataclass(slots=True)
class JoinMetrics:
    """Counts since the operator was made; both sides together where no side is named.

    Attributes
    ----------
    left_rows_in, right_rows_in : int
        Rows pushed.
    rows_out : int
        Rows produced.
    left_rows_retired, right_rows_retired : int
        Rows decided and dropped: on arrival, by pruning, or at an end.
    late_rows : int
        Rows that broke their side's order or bounds.
    state_rows, state_bytes : int
        Rows in the side stores when the last call ended, and the bytes that the operator holds: rings, links, arenas
        and sorted runs of the stores, the key table, and the scratch and registers that it keeps from one call to the
        next. Output batches belong to whoever took them. An operator that has stopped holds no rows.
    peak_state_rows, peak_state_bytes : int
        The greatest of these: of the rows at the end of any call, of the bytes before any batch of output as well.
    spilled_rows, spilled_bytes : int
        Under ``when_full="spill"``: rows of which something lies in files now, and the bytes of the files.
    reads : int
        Output rows that were put together while stored rows lay in files.
    shed_left, shed_right : int
        Under ``when_full="shed"``: rows that were dropped.
    recall, recall_error : float or None
        Of an inner join that has dropped rows: the estimated share of its pairs that has come out, and how far that
        may be off, 95 times of 100. Computed anew every 16,384 rows or so, and at the end.
    """

    left_rows_in: int = 0
    right_rows_in: int = 0
    rows_out: int = 0
    left_rows_retired: int = 0
    right_rows_retired: int = 0
    late_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    peak_state_rows: int = 0
    peak_state_bytes: int = 0
    spilled_rows: int = 0
    spilled_bytes: int = 0
    reads: int = 0
    shed_left: int = 0
    shed_right: int = 0
    recall: float | None = None
    recall_error: float | None = None

    def as_dict(self) -> dict[str, int]:
        """The counts by their names; what is estimated is not among them."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("recall")}


@dataclass(slots=True)
class MultiJoinMetrics:
    """Counts of a join of many inputs since it was made.

    Attributes
    ----------
    rows_in, rows_retired, late, stored : dict of str to int
        By alias: rows pushed; rows decided and dropped, on arrival, by pruning or at an end; rows that broke their
        input's order or bounds; rows stored now, in each place where they are.
    views : dict of str to int
        Rows stored now of each view, by the aliases that it joins.
    rows_out : int
        Rows produced.
    late_rows : int
        Of all inputs.
    state_rows, state_bytes : int
        Rows of inputs and views that are stored when the last call ended, and the bytes that all steps hold.
    peak_state_rows, peak_state_bytes : int
        The greatest of these at the end of any call.
    spilled_rows, spilled_bytes : int
        Rows of which something lies in files now, and the size of these files.
    """

    rows_in: dict[str, int]
    rows_retired: dict[str, int]
    late: dict[str, int]
    stored: dict[str, int]
    views: dict[str, int]
    rows_out: int = 0
    late_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    peak_state_rows: int = 0
    peak_state_bytes: int = 0
    spilled_rows: int = 0
    spilled_bytes: int = 0

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        return asdict(self)
