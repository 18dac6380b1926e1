"""Run one join on many workers: plan which copies of a row go to which worker (`docs/guides/parallel.md`).

A planner takes samples of both sides and returns a routing plan, which is a function from a row to its cells. Each cell
is a separate join.
"""

from ivjoin.routing.along import Edge, PlanList, along
from ivjoin.routing.encoding import plan_from_json, plan_to_json
from ivjoin.routing.grids.grids import heavy_grids
from ivjoin.routing.grids.hypercube import HypercubePlan, Relation, hypercube
from ivjoin.routing.plan import RoutingPlan
from ivjoin.routing.planner import plan_join
from ivjoin.routing.report import LoadReport
from ivjoin.routing.simulate import simulate

__all__ = [
    "Edge", "HypercubePlan", "LoadReport", "PlanList", "Relation", "RoutingPlan", "along", "heavy_grids", "hypercube",
    "plan_from_json", "plan_join", "plan_to_json", "simulate",
]  # fmt: skip
