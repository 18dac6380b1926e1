"""Public calls say what they take: every argument has a type, none is ``Any``, and none takes any name at all."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

_SPECIAL = ("__init__", "__iter__", "__next__", "__arrow_c_stream__")


def modules() -> list[ModuleType]:
    found = [import_module("ivjoin"), import_module("ivjoin.shedding")]
    try:
        return [*found, import_module("ivjoin.spark")]
    except ImportError:
        return found


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            where = f"{module.__name__}.{name}"
            if not inspect.isclass(value):
                if callable(value):
                    yield where, value
                continue
            for method, f in vars(value).items():
                if method.startswith("_") and method not in _SPECIAL:
                    continue
                plain = f.fget if isinstance(f, property) else getattr(f, "__func__", f)
                if inspect.isfunction(plain):
                    yield f"{where}.{method}", plain


# Spark's settings have names of Spark's making, and tables of a query the caller's.
ANY_NAME = {"ivjoin.spark.session", "ivjoin.sql"}


@pytest.mark.parametrize("where, call", [pytest.param(w, c, id=w) for w, c in calls()])
def test_every_argument_has_a_type(where: str, call: Callable[..., Any]) -> None:
    said = inspect.signature(call)
    assert len(said.parameters) <= 20 or where.endswith("Metrics.__init__")
    for p in said.parameters.values():
        if p.name in ("self", "cls"):
            continue
        assert p.annotation is not p.empty, f"{where}: {p.name} has no type"
        assert "Any" not in str(p.annotation), f"{where}: {p.name} is {p.annotation}"
        named = str(p.annotation).startswith("Unpack[")  # by a TypedDict
        assert p.kind is not p.VAR_KEYWORD or named or where in ANY_NAME, f"{where} takes any name"
    assert "Any" not in str(said.return_annotation), f"{where} returns {said.return_annotation}"


FURTHER = [c for w, c in calls() if "options" in inspect.signature(c).parameters and not w.endswith("explain")]


@pytest.mark.parametrize("call", FURTHER, ids=lambda c: f"{c.__module__}.{c.__name__}")
def test_further_options_have_types_defaults_and_a_description(call: Callable[..., Any]) -> None:
    home = import_module(call.__module__)
    name = {"asof_join": "ASOF_DEFAULTS", "window_join": "WINDOW_DEFAULTS"}.get(call.__name__, "DEFAULTS")
    options = getattr(home, name)
    assert not options.keys() & inspect.signature(call).parameters.keys()
    described = inspect.cleandoc(call.__doc__ or "").partition("Other Parameters\n")[2].partition("Returns\n")[0]
    assert ", ".join(re.findall(r"^(\w[\w, ]*?)(?: :.*)?$", described, re.MULTILINE)).split(", ") == list(options)
