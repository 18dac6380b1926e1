"""Plans as JSON, so that every task of a query follows the same one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ivjoin.errors import OptionError, SnapshotError, came
from ivjoin.outer.jointype import join_type
from ivjoin.plan.cache import planned
from ivjoin.plan.planner import JoinPlan
from ivjoin.routing.cells import Entry, Layout
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.reach import reach_of
from ivjoin.routing.reader import Reader
from ivjoin.routing.report import LoadReport

__all__ = ["plan_from_json", "plan_to_json"]

_VERSION = 2


def plan_to_json(plan: RoutingPlan) -> str:
    """Return a routing plan as text, with its report.

    Raises
    ------
    OptionError
        If it is not a RoutingPlan.
    """
    if not isinstance(plan, RoutingPlan):
        raise OptionError(f"plan is {came(plan)}; expected a RoutingPlan, which plan_join() returns")
    layout, report = plan.layout, plan.report
    axes = plan.reader.reach.axes
    return json.dumps({
        "version": _VERSION, "join": _join(plan.reader.plan), "workers": plan.workers, "scheme": plan.scheme,
        "notes": plan.notes, "worker_of": plan.worker_of.tolist(), "dealt": plan.dealt,
        "axis": None if plan.axis is None else axes.index(plan.axis), "n_light": layout.n_light, "both": layout.both,
        "salted": layout.salted, "key_hash": plan.reader.key_hash,
        "entries": [[e.key, e.cuts, e.grids, e.twofold] for e in layout.entries],
        "shares": [None if s is None else s.tolist() for s in layout.shares],
        "report": [report.rows_in.tolist(), report.rows_out.tolist(), report.skew_degree, report.replication,
                   report.load, report.lower_bound, report.beta],
    })  # fmt: skip


def plan_from_json(text: str, left_schema: Any, right_schema: Any, **join: Any) -> RoutingPlan:
    """Return the plan of a text, for the join with these schemas, ``on``, ``condition``, ``how`` and ``timezone``.

    Raises
    ------
    SnapshotError
        If the text is not a plan of this version.
    OptionError
        If it is the plan of another join.
    """
    try:
        d = json.loads(text)
        version = d["version"]
    except (ValueError, TypeError, KeyError) as e:
        raise SnapshotError(f"the text is not a routing plan: {e}; expected the result of plan_to_json()") from e
    if version != _VERSION:
        raise SnapshotError(f"the routing plan has version {version}; this release reads version {_VERSION}")
    plan = planned(left_schema, right_schema, **join)
    if d.get("join") != _join(plan):
        raise OptionError(f"the routing plan is for another join: it says {d.get('join')}, this one is {_join(plan)}")
    try:
        return _decoded(d, plan)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise SnapshotError(f"the routing plan is damaged: {came(e)}; expected the result of plan_to_json()") from e


def _decoded(d: dict[str, Any], plan: JoinPlan) -> RoutingPlan:
    reader = Reader(plan, reach_of(plan), d["key_hash"])
    entries = [Entry(key, tuple(cuts), tuple((a, b) for a, b in grids), two) for key, cuts, grids, two in d["entries"]]
    layout = Layout(d["n_light"], entries, d["both"], d["salted"])
    for s, cuts in enumerate(d["shares"]):
        if cuts is not None:
            layout.set_shares(s, np.array(cuts, dtype=np.int64))
    rows_in, rows_out, *numbers = d["report"]
    report = LoadReport(np.array(rows_in), np.array(rows_out), *numbers)
    worker_of, workers = np.array(d["worker_of"], dtype=np.int64), d["workers"]
    if len(worker_of) != layout.cells or not ((worker_of >= 0) & (worker_of < workers)).all():
        raise ValueError(f"{layout.cells} cells, and the workers {came(d['worker_of'])} of {came(workers)}")
    return RoutingPlan(
        how=plan.how.name, workers=workers, scheme=d["scheme"], notes=tuple(d["notes"]),
        worker_of=worker_of, join_type=join_type(plan.how.name), reader=reader,
        layout=layout, axis=None if d["axis"] is None else reader.reach.axes[d["axis"]],
        dealt=(d["dealt"][0], d["dealt"][1]), measure=lambda _: report,
    )


def _join(plan: JoinPlan) -> str:
    """Return a text of the join, which must be equal for two plans."""
    sides = " with ".join(", ".join(f"{f.name} {f.type}" for f in s.schema) for s in plan.sides)
    return f"{plan.how.name} join of {sides} where {plan.condition} in {plan.spec.timezone}"
