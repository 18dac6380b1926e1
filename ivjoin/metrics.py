"""The metrics of joins."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

__all__ = ["JoinMetrics", "MultiJoinMetrics"]


@dataclass(slots=True)
class JoinMetrics:
    """Counts since the creation of the operator. They include both sides unless the name states a side.

    Attributes
    ----------
    left_rows_in, right_rows_in : int
        Rows pushed.
    rows_out : int
        Rows emitted.
    left_rows_retired, right_rows_retired : int
        Rows evicted: on arrival, by pruning, or at the end of an input.
    late_rows : int
        Rows that violate their side's order or bounds. A row counts once for each order or bound that it violates.
    left_late_rows, right_late_rows : int
        Late rows of each side.
    left_lateness, right_lateness : number or timedelta, optional
        The greatest distance of a late row from the furthest row before it. With a slack of this size, no row would
        have been late. None if no row broke an order.
    state_rows, state_bytes : int
        Rows in state after the last call, and the bytes of stored rows, index, key table and scratch memory. Output
        batches are not counted. A join of tables in slices counts the slices that are being joined.
    peak_state_rows, peak_state_bytes : int
        The greatest values so far. Rows are counted at the end of each call, and bytes also before each output batch.
    spilled_rows, spilled_bytes : int
        With ``when_full="spill"``: rows with data in files, and the bytes of the files.
    reads : int
        Output rows that were assembled while stored rows were in files.
    shed_left, shed_right : int
        With ``when_full="shed"``: dropped rows of each side.
    recall, recall_error : float or None
        For an inner join that has dropped rows: the estimated share of the pairs that were emitted, and the error of
        this estimate with 95 % confidence. Computed about every 16,384 rows, and at the end.
    """

    left_rows_in: int = 0
    right_rows_in: int = 0
    rows_out: int = 0
    left_rows_retired: int = 0
    right_rows_retired: int = 0
    late_rows: int = 0
    left_late_rows: int = 0
    right_late_rows: int = 0
    left_lateness: object = None
    right_lateness: object = None
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
        """Return the counts by name, without estimates."""
        return {name: value for name, value in asdict(self).items() if "recall" not in name and "lateness" not in name}


@dataclass(slots=True)
class MultiJoinMetrics:
    """Counts of a join of many inputs since its creation.

    Attributes
    ----------
    rows_in, rows_retired, late, stored : dict of str to int
        By alias. ``rows_in``: rows pushed. ``rows_retired``: rows evicted on arrival, by pruning or at the end of an
        input. ``late``: rows that violate their input's order or bounds. ``stored``: rows stored now, counted in each
        step that stores them.
    views : dict of str to int
        Rows of each view that are stored now. The key has the aliases that the view joins.
    rows_out : int
        Rows emitted.
    late_rows : int
        Late rows of all inputs.
    lateness : dict of str to number or timedelta
        By alias, as ``left_lateness`` of :class:`JoinMetrics`.
    state_rows, state_bytes : int
        Rows of inputs and views in state at the end of the last call, and the bytes of all steps.
    peak_state_rows, peak_state_bytes : int
        The greatest values at the end of any call.
    spilled_rows, spilled_bytes : int
        Rows with data in files, and the size of these files.
    """

    rows_in: dict[str, int]
    rows_retired: dict[str, int]
    late: dict[str, int]
    stored: dict[str, int]
    views: dict[str, int]
    lateness: dict[str, object] = field(default_factory=dict)
    rows_out: int = 0
    late_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    peak_state_rows: int = 0
    peak_state_bytes: int = 0
    spilled_rows: int = 0
    spilled_bytes: int = 0

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        return {name: value for name, value in asdict(self).items() if name != "lateness"}
