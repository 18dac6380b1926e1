"""decimal operators (being written)."""
from ivjoin.expr.ops_cells import Rule
RULES: dict[str, Rule] = {}
