"""Casts (being written)."""
from ivjoin.expr.nodes import Node
from ivjoin.expr.ops_cells import Consts, Kernel, unsupported
from ivjoin.expr import ops_integer


def cast_rule(node: Node, consts: Consts) -> Kernel:
    t, u = node.args[0].type, node.type
    if t == u:
        return lambda a: a
    if t.kind == u.kind == "int":
        return lambda a: ops_integer.narrowed(a, u)
    raise unsupported(node)
