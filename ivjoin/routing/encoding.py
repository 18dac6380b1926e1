"""Encode plans as JSON, so that every task of a query follows the same plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ivjoin.arguments import MOST_ROWS, one_of, text
from ivjoin.conditions.snapshot_checks import damaged, flag, whole, wholes
from ivjoin.errors import OptionError, SnapshotError, came
from ivjoin.plan.cache import planned
from ivjoin.plan.join_plan import JoinPlan
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.planner import SCHEMES
from ivjoin.routing.report import LoadReport
from ivjoin.routing.rows.cells import Entry, Layout
from ivjoin.routing.rows.reach import Axis, reach_of
from ivjoin.routing.rows.reader import Reader

__all__ = ["plan_from_json", "plan_to_json"]

_VERSION = 2


def plan_to_json(plan: RoutingPlan) -> str:
    """Return a RoutingPlan as text, with its report; OptionError for another object."""
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

    SnapshotError if the text is not a plan of this version, OptionError if it is the plan of another join.
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
        raise OptionError(f"the routing plan is for another join: it has {d.get('join')}, this one has {_join(plan)}")
    try:
        return _decoded(d, plan)
    except SnapshotError as e:
        raise SnapshotError(str(e).replace("the snapshot", "the routing plan", 1)) from e
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        raise SnapshotError(f"the routing plan is damaged: {came(e)}; expected the result of plan_to_json()") from e


def _decoded(d: dict[str, Any], plan: JoinPlan) -> RoutingPlan:
    reader = Reader(plan, reach_of(plan), d["key_hash"])
    n_light, workers = whole(d["n_light"], "n_light", 0), whole(d["workers"], "workers", 1, MOST_ROWS)
    both, salted = flag(d["both"], "both"), flag(d["salted"], "salted")
    entries = [_entry(*e) for e in d["entries"]]
    axis = None if d["axis"] is None else reader.reach.axes[whole(d["axis"], "axis", 0)]
    # Counts are compared with what the text lists before an array of that length is made.
    worker_of = np.array(wholes(d["worker_of"], "worker_of", 0, workers - 1), dtype=np.int64)
    cells = n_light + sum(e.cells for e in entries)
    if len(worker_of) != cells:
        raise damaged(f"{cells} cells have {len(worker_of)} workers")
    _check_keys(n_light, [e.key for e in entries], bool(reader.reach.keys[0]))
    _check_owners(plan, entries, axis, both)
    layout = Layout(n_light, entries, both, salted)
    for s, cuts in zip((0, 1), d["shares"], strict=True):
        if cuts is not None:
            layout.set_shares(s, _shares(layout, s, cuts))
    first, second = (wholes(d["dealt"][s], "dealt", 0, len(reader.schemas[s]) - 1) for s in (0, 1))
    return RoutingPlan(
        how=plan.how.name, workers=workers, scheme=one_of("scheme", d["scheme"], SCHEMES),
        notes=tuple(text("a note", note, "one cell") for note in d["notes"]),
        worker_of=worker_of, reader=reader,
        layout=layout, axis=axis, dealt=(first, second), measure=_report(d["report"], workers),
    )


def _entry(key: Any, cuts: Any, grids: Any, twofold: Any) -> Entry:
    shapes = [wholes(g, "a grid", 1, MOST_ROWS) for g in grids]
    entry = Entry(
        None if key is None else whole(key, "a key", 0, 2**64 - 1), tuple(wholes(cuts, "cuts")),
        tuple((a, b) for a, b in shapes), flag(twofold, "twofold"),
    )
    if any(a >= b for a, b in pairwise(entry.cuts)):
        raise damaged("the slices of a key do not rise")
    if entry.twofold:
        if entry.cuts or [entry.grids[0][1], entry.grids[1][0], len(entry.grids)] != [1, 1, 2]:
            raise damaged(f"a key has the grids {came(entry.grids)}; expected one column and one row")
    elif len(entry.grids) != len(entry.cuts) + 1:
        raise damaged(f"a key has {len(entry.grids)} grids in {len(entry.cuts) + 1} slices")
    return entry


def _check_keys(n_light: int, keys: list[int | None], keyed: bool) -> None:
    """Check that each key has cells: its own, or the light ones."""
    known = [k for k in keys if k is not None]
    if keyed and not (n_light and len(known) == len(keys) and all(a < b for a, b in pairwise(known))):
        raise damaged(f"keys have {n_light} cells together, and {came(keys)} have their own; expected rising keys")
    if not keyed and (n_light or keys != [None]):
        raise damaged(f"a join without a key has cells for {came(keys)}")


def _check_owners(plan: JoinPlan, entries: list[Entry], axis: Axis | None, both: bool) -> None:
    """Check that each row of a preserved side has one owner, so that it is emitted once if unmatched."""
    preserved = plan.how.preserved
    for e in entries:
        split = any(a > 1 for a, _ in e.grids), any(b > 1 for _, b in e.grids)
        if e.twofold != (both and split != (False, False)):
            raise damaged("the grids of a key do not fit the homes of its rows")
        if not e.twofold and ((preserved[0] and split[1]) or (preserved[1] and split[0])):
            raise damaged(f"a {plan.how.name} join has a key in the grids {came(e.grids)}")
        if e.cuts and (axis is None or (axis.home is None if both else preserved[1 - axis.divided])):
            raise damaged(f"a {plan.how.name} join has a key in slices along {axis}")


def _shares(layout: Layout, s: int, saved: Any) -> np.ndarray:
    """Return the starts of the parts of hashes : int64[m], for each grid as many as it has rows or columns but one."""
    sizes = np.array([g[s] for e in layout.entries for g in e.grids], dtype=np.int64)
    cuts = np.array(wholes(saved, "shares", 0), dtype=np.int64)
    if not np.array_equal(cuts >> 32, np.repeat(np.arange(len(sizes)), sizes - 1)) or (cuts[1:] < cuts[:-1]).any():
        raise damaged("the shares of grids do not fit the grids")
    return cuts


def _report(saved: Any, workers: int) -> Callable[[RoutingPlan], LoadReport]:
    rows_in, rows_out, *numbers = saved
    both = np.array([rows_in, rows_out], dtype=np.float64)
    if both.shape != (2, workers) or len(numbers) != 5 or not np.isfinite([*both.ravel(), *numbers]).all():
        raise damaged(f"the report is not about {workers} workers")
    report = LoadReport(np.array(rows_in), np.array(rows_out), *numbers)
    return lambda _: report


def _join(plan: JoinPlan) -> str:
    """Return a text of the join, which must be equal for two plans."""
    sides = " with ".join(", ".join(f"{f.name} {f.type}" for f in s.schema) for s in plan.sides)
    return f"{plan.how.name} join of {sides} where {plan.condition} in {plan.spec.timezone}"
