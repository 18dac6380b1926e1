"""The same join in another form: its inputs exchanged, or a snapshot taken and restored at every step."""

from __future__ import annotations

from dataclasses import replace

from join.cases import Case, Event
from join.conditions import Term, swapped

MIRROR = {
    "left": "right", "right": "left", "left_semi": "right_semi", "right_semi": "left_semi", "left_anti": "right_anti",
    "right_anti": "left_anti",
}


def mirrored(case: Case) -> Case:
    """The same join with its inputs exchanged."""
    other = {"left": "right", "right": "left"}
    t = case.condition
    condition = None if t is None else Term(swapped(t.sql), swapped(t.duck), lambda a, b: t.value(b, a), t.family)
    script = tuple((e[0], other[e[1]], *e[2:]) if len(e) > 1 else e for e in case.script)
    return replace(
        case, left=case.right, right=case.left, how=MIRROR.get(case.how, case.how),
        names=tuple((b, a) for a, b in case.names), condition=condition, left_order=case.right_order,
        right_order=case.left_order, left_bounds=case.right_bounds, right_bounds=case.left_bounds, script=script,
    )


def snapshots_everywhere(case: Case) -> Case:
    script: list[Event] = [("snapshot",)]
    for event in case.script:
        script += [event, ("snapshot",)]
    return replace(case, script=tuple(script))
