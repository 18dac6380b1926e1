"""The record of an operator: the only place that defines how it is read, written, evaluated and bounded.

A record is in the file of its family, and ``ivjoin.functions.table`` finds it. To add an operator, add a record and its
examples. A missing part is an :class:`Absent` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ivjoin.expr.build.coerce import local_text
from ivjoin.expr.kernels.cells import Rule as Exact
from ivjoin.expr.nodes import Node
from ivjoin.functions.records.direction import DirectionRule
from ivjoin.functions.records.linear import Linear
from ivjoin.functions.records.writing import Written
from ivjoin.functions.rules.rule import Maker

__all__ = [
    "ANY", "BOTH_WAYS", "COLUMNS", "LIBRARY", "NOT_IN_SYMPY", "NOT_LINEAR", "NO_NUMBER", "NO_ORDER", "TEXT_BOUNDS",
    "Absent", "Build", "Call", "Meaning", "Operator", "always", "call", "never", "of_texts", "one", "quiet",
]  # fmt: skip

ANY = 1 << 30
Build = Callable[[list[Node], str], Node]  # arguments and the zone of the condition

# The columns in the examples of records: name -> type, as ``ivjoin.expr.types.named`` reads it. Nested columns also
# exist: a struct st (q, name, inner.w), arrays xs and ss, a map mp and an interval md.
COLUMNS = {
    "a": "int64", "b": "int64", "n": "int32", "m": "int32", "x": "double", "y": "double", "f": "float",
    "p": "decimal(10, 2)", "q": "decimal(8, 3)", "s": "string", "u": "string", "z": "binary", "d": "date", "e": "date",
    "t": "timestamp[us, UTC]", "v": "timestamp[us, UTC]", "i": "duration[us]", "j": "duration[us]", "k": "bool",
    "o": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Absent:
    """A missing part of an operator, with the reason."""

    why: str


NOT_LINEAR = Absent("the value is not a sum of multiples of the arguments")
NO_NUMBER = Absent("the value is not a number")
NO_ORDER = Absent("the value does not follow the order of an argument")
BOTH_WAYS = Absent("the value rises in one range and falls in another")
LIBRARY = Absent("the last digit of a library function may fall while the argument rises")
NOT_IN_SYMPY = Absent("SymPy does not have this function")
TEXT_BOUNDS = Absent("the interval rules do not follow a range of strings through it")


def always(n: Node) -> bool:
    return True


def never(n: Node) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Meaning:
    """The exact kernel and the interval rule of an operator, for arguments of one kind.

    ``exact(node, constants)`` returns the kernel. ``bounds`` is the rule; ``no_forward`` and ``no_backward`` are the
    reasons for a missing direction. ``never_errs``: whether no values of the arguments' types give an error.
    """

    exact: Exact
    bounds: Maker | Absent
    no_forward: str = ""
    no_backward: str = ""
    never_errs: Callable[[Node], bool] = never


def quiet(exact: Exact, bounds: Maker, no_forward: str = "", no_backward: str = "") -> Meaning:
    """Return a meaning without errors of its own."""
    return Meaning(exact, bounds, no_forward, no_backward, always)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of SQL and of Python expressions: its names, the number of arguments, and its constructor."""

    names: tuple[str, ...]
    least: int
    most: int
    make: Build


def call(names: str, least: int, most: int, make: Build) -> Call:
    """Return the function with several names, separated by spaces."""
    return Call(tuple(names.split()), least, most, make)


def one(names: str, make: Callable[[Node], Node]) -> Call:
    """Return a function of one argument."""
    return call(names, 1, 1, lambda a, z: make(a[0]))


def of_texts(f: Call) -> Call:
    """Return the same function for texts; for an instant it uses the text of its local time."""
    return replace(f, make=lambda a, z: f.make([local_text(x, z) for x in a], z))


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """The definition of an operator."""

    name: str  # of its nodes (``ivjoin.expr.nodes``); for a string function, the name in pyarrow.compute
    meanings: Mapping[str, Meaning]  # for each kind of arguments (``time`` if one is a time), or ``*`` for all
    examples: tuple[str, ...]  # over COLUMNS, at least one for each meaning
    text: Written  # writes it as SQL
    direction: DirectionRule | Absent  # the order of its values
    linear: Linear | Absent  # its form as a sum of multiples
    build: Build | None = None  # for Python operators, SQL's infix and SymPy
    infix: str = ""  # sqlglot's name
    calls: tuple[Call, ...] = ()  # the functions that are read as this
    sympy: str | Absent = field(default=NOT_IN_SYMPY)  # SymPy's class
    warns: bool | None = None  # numpy could warn about the kernel; None: only with floats
    passes_null: Callable[[Node], bool] = always  # NULL exactly where an argument is, and an error where one has one
    passes_nan: Callable[[Node], bool] = never  # NaN, NULL or an error where an argument is NaN or NULL
    skips_null: bool = False  # NULL only where all arguments are
    lazy: bool = False  # evaluates its first argument alone if that decides
    inner: bool = False  # only bands create it, so that it has no text
