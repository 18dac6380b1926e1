"""Expressions: immutable, interned graphs of :class:`~ivjoin.expr.nodes.Node`. A :class:`Scope` resolves names."""

from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import Scope
from ivjoin.expr.types import Type

__all__ = ["Node", "Scope", "Type"]
