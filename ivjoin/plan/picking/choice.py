"""``ivjoin.Pick``, which limits the matches of each left row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ivjoin.arguments import MOST_ROWS, one_of, whole_number
from ivjoin.errors import OptionError, came

if TYPE_CHECKING:
    from ivjoin.conditions.written import Expression

__all__ = ["Pick", "check_pick"]


@dataclass(frozen=True)
class Pick:
    """Choose which of the right rows that satisfy the whole condition a left row takes.

    Parameters
    ----------
    by : str, expression, or list of these
        How matches are ordered: by expressions over both sides, such as ``"abs(l.x - r.x)"``, or by right columns.
        Later entries break ties. Nulls sort last, both with ``keep="first"`` and with ``keep="last"``.
    keep : {"first", "last"}
        Whether to take the rows with the least or with the greatest values.
    k : int, default 1
        The maximum number of rows for each left row.
    ties : {"any", "all"}
        Whether to also take the rows that tie with the last one taken (``"all"``), or not (``"any"``).

    Raises
    ------
    OptionError
        If an argument is invalid.

    Examples
    --------
    >>> import ivjoin, pyarrow as pa
    >>> a, b = pa.table({"x": [10]}), pa.table({"x": [7, 11, 14, 30]})
    >>> nearest = ivjoin.Pick(by="abs(l.x - r.x)", k=2)
    >>> ivjoin.band_join(a, b, condition="abs(l.x - r.x) < 10", pick=nearest).to_arrow()["x_right"].to_pylist()
    [11, 7]
    """

    by: Expression | Sequence[Expression]
    keep: Literal["first", "last"] = "first"
    k: int = 1
    ties: Literal["any", "all"] = "any"

    def __post_init__(self) -> None:
        one_of("keep", self.keep, ("first", "last"), OptionError)
        one_of("ties", self.ties, ("any", "all"), OptionError)
        object.__setattr__(self, "k", whole_number("k", self.k, 1, MOST_ROWS, "a whole number of rows"))
        items = self.items
        if not items or any(item is None for item in items):
            raise OptionError(f"by is {came(self.by)}; expected an expression, such as 'abs(l.x - r.x)', or a list")

    @property
    def items(self) -> list[Expression]:
        return list(self.by) if isinstance(self.by, (list, tuple)) else [self.by]


def check_pick(given: object, alias: str | None = None) -> Pick:
    """Return ``given`` if it is a Pick, else raise OptionError. ``alias`` names the input whose rows it picks."""
    if isinstance(given, Pick):
        return given
    of = "" if alias is None else f" of {alias!r}"
    keep = ", keep='last'" if given == "last" else ""
    raise OptionError(f"pick{of} is {came(given)}; expected ivjoin.Pick(...), such as pick=ivjoin.Pick(by='ts'{keep})")
