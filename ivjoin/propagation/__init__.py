"""Propagate intervals up and down the graph of a condition, to bound the values of future rows.

`contract` narrows a box of column intervals. `forward`, `contract_nodes` and `Dom` do the same for expression nodes.
Bounds include rounding and overflow of machine operations. An operator without a rule narrows nothing.
"""

from ivjoin.functions.rules.domain import Dom
from ivjoin.propagation.contract import Bounds, Contraction, contract
from ivjoin.propagation.dag import Outcome, Propagator
from ivjoin.propagation.frontier import contract_nodes, forward, forward_all, propagator
from ivjoin.propagation.ordering import Direction, ordering
from ivjoin.propagation.prefix import confirmed, dead_until, refutes

__all__ = [
    "Bounds", "Contraction", "Direction", "Dom", "Outcome", "Propagator", "confirmed", "contract",
    "contract_nodes", "dead_until", "forward", "forward_all", "ordering", "propagator", "refutes",
]  # fmt: skip
