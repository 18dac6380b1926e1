"""The eight join types, as flags that the operator reads."""

from __future__ import annotations

from dataclasses import dataclass

from ivjoin.arguments import near
from ivjoin.errors import ConditionError, came

__all__ = ["JoinType", "join_type"]


@dataclass(frozen=True, slots=True)
class JoinType:
    """The rows that a join type emits.

    ``pairs``: matched pairs are output rows. ``keep`` (left, right): an unmatched row is emitted with nulls for the
    other side. ``semi`` and ``anti`` (0 left, 1 right, None): only this side's rows are emitted, at their first match,
    or when decided without one.
    """

    name: str
    pairs: bool
    keep: tuple[bool, bool]
    semi: int | None = None
    anti: int | None = None

    @property
    def single(self) -> int | None:
        """Return the side if the output has only its columns; None if it has the columns of both."""
        return self.semi if self.semi is not None else self.anti

    @property
    def preserved(self) -> tuple[bool, bool]:
        """Return for each side whether the join emits single rows of it: unmatched, semi or anti."""
        return self.keep[0] or self.single == 0, self.keep[1] or self.single == 1

    def owes(self, side: int) -> bool:
        """Return whether the join emits an unmatched row of the side when it is decided."""
        return self.keep[side] or self.anti == side


_TYPES = {
    "inner": JoinType("inner", True, (False, False)),
    "left": JoinType("left", True, (True, False)),
    "right": JoinType("right", True, (False, True)),
    "full": JoinType("full", True, (True, True)),
    "left_semi": JoinType("left_semi", False, (False, False), semi=0),
    "right_semi": JoinType("right_semi", False, (False, False), semi=1),
    "left_anti": JoinType("left_anti", False, (False, False), anti=0),
    "right_anti": JoinType("right_anti", False, (False, False), anti=1),
}
_ALIASES = {
    "cross": "inner", "outer": "full", "fullouter": "full", "leftouter": "left", "rightouter": "right",
    "semi": "left_semi", "leftsemi": "left_semi", "anti": "left_anti", "leftanti": "left_anti",
    "rightsemi": "right_semi", "rightanti": "right_anti",
}


def join_type(how: str) -> JoinType:
    """Return the join type of a name, Spark's aliases included, or raise ConditionError with the nearest name."""
    name = how.strip().lower() if isinstance(how, str) else ""
    plain = name.replace("_", "").replace(" ", "")
    found = _TYPES.get(name) or _TYPES.get(_ALIASES.get(plain, plain))
    if found is None:
        raise ConditionError(f"how is {came(how)}; expected one of {', '.join(_TYPES)}{near(name, _TYPES, 0.4)}")
    return found
