"""Expressions, as immutable, interned graphs of :class:`~ivjoin.expr.nodes.Node`; a :class:`Scope` resolves names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ivjoin.expr.nodes import Node
from ivjoin.expr.scope import Scope
from ivjoin.expr.types import Type

__all__ = ["Node", "Scope", "Type", "condition", "scalar"]


def __getattr__(name: str) -> Any:
    if name not in ("condition", "scalar"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("ivjoin.conditions"), name)
