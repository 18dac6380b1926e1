"""What is said of an operator, once: its record, from which everything that reads, writes, evaluates or bounds works.

A record stands in the file of its family (``arithmetic``, ``rounding``, ``functions``, ``comparison``, ``truth``,
``choice``, ``casts``, ``times``, ``spans``, ``texts``, ``patterns``, ``bits``, ``hashes``, ``nested``, ``attempts``)
and is found by ``ivjoin.operators.table``. To add an operator is to add a record and its examples. What an operator has
not is an :class:`Absent` with the reason, never silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ivjoin.expr.build.coerce import local_text
from ivjoin.expr.kernels.cells import Rule as Exact
from ivjoin.expr.nodes import Node
from ivjoin.operators.direction import DirectionRule
from ivjoin.operators.linear import Linear
from ivjoin.operators.rule import Maker
from ivjoin.operators.writing import Written

__all__ = [
    "ANY", "BOTH_WAYS", "COLUMNS", "LIBRARY", "NOT_IN_SYMPY", "NOT_LINEAR", "NO_NUMBER", "NO_ORDER", "TEXT_BOUNDS",
    "Absent", "Build", "Call", "Meaning", "Operator", "call", "of_texts", "one",
]  # fmt: skip

ANY = 1 << 30
Build = Callable[[list[Node], str], Node]  # arguments and the zone of the condition

# The columns that the examples of records are written over: name -> type as ``ivjoin.expr.types.named`` reads it. There
# are nested ones too: a struct st (q, name, inner.w), arrays xs and ss, a map mp and an interval md.
COLUMNS = {
    "a": "int64", "b": "int64", "n": "int32", "m": "int32", "x": "double", "y": "double", "f": "float",
    "p": "decimal(10, 2)", "q": "decimal(8, 3)", "s": "string", "u": "string", "z": "binary", "d": "date", "e": "date",
    "t": "timestamp[us, UTC]", "v": "timestamp[us, UTC]", "i": "duration[us]", "j": "duration[us]", "k": "bool",
    "o": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Absent:
    """That an operator has none of something, and why."""

    why: str


NOT_LINEAR = Absent("the value is not a sum of multiples of the arguments")
NO_NUMBER = Absent("the value is not a number")
NO_ORDER = Absent("the value does not follow the order of an argument")
BOTH_WAYS = Absent("the value rises in one range and falls in another")
LIBRARY = Absent("the last digit of a library function may fall while the argument rises")
NOT_IN_SYMPY = Absent("SymPy does not have this function")
TEXT_BOUNDS = Absent("the interval rules do not follow a range of strings through it")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an operator computes on arguments of one kind, and what intervals say of that.

    Attributes
    ----------
    exact : callable
        ``(node, constants)`` gives the kernel (``ivjoin.expr.kernels.cells``).
    bounds : Maker or Absent
        The interval rule, forward and backward.
    no_forward, no_backward : str
        Why a rule has no such direction.
    inner : bool
        Whether no constructor makes it, so that no example can show it.
    """

    exact: Exact
    bounds: Maker | Absent
    no_forward: str = ""
    no_backward: str = ""
    inner: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function of SQL and of the fluent face: its names, how many arguments, and the node it makes."""

    names: tuple[str, ...]
    least: int
    most: int
    make: Build


def call(names: str, least: int, most: int, make: Build) -> Call:
    """The function of several names, written with spaces between."""
    return Call(tuple(names.split()), least, most, make)


def one(names: str, make: Callable[[Node], Node]) -> Call:
    """A function of one argument."""
    return call(names, 1, 1, lambda a, z: make(a[0]))


def of_texts(f: Call) -> Call:
    """The same function of texts: of an instant it takes the text of its local time."""
    return replace(f, make=lambda a, z: f.make([local_text(x, z) for x in a], z))


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """All there is to say of an operator.

    Attributes
    ----------
    name : str
        Of its nodes (``ivjoin.expr.nodes``); of a string function, pyarrow.compute's.
    meanings : mapping of str to Meaning
        By the kind of the arguments (``time`` where one is a time), ``*`` for all.
    examples : tuple of str
        Expressions over :data:`COLUMNS` in which it occurs, one or more for each meaning.
    text : callable
        How it is written.
    direction, linear : rules or Absent
        Which order it passes on; where it is a sum.
    build : callable or None
        The node of arguments, where Python operators, SQL's infix or SymPy say it.
    infix : str
        sqlglot's name of the infix operator that is read as this.
    calls : tuple of Call
        The functions that are read as this.
    sympy : str or Absent
        SymPy's class.
    warns : bool or None
        Whether numpy could warn of what the kernel does; None: where floats take part.
    inner : bool
        Whether only bands make it, so that no text says it.
    """

    name: str
    meanings: Mapping[str, Meaning]
    examples: tuple[str, ...]
    text: Written
    direction: DirectionRule | Absent
    linear: Linear | Absent
    build: Build | None = None
    infix: str = ""
    calls: tuple[Call, ...] = ()
    sympy: str | Absent = field(default=NOT_IN_SYMPY)
    warns: bool | None = None
    inner: bool = False
