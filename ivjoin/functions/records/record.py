"""The record of an operator: the only place that defines how it is read, written, evaluated and bounded.

A record is in the file of its family, and ``ivjoin.functions.table`` collects all records. To add an operator, add a
record with examples. If a part is missing, an :class:`Absent` gives the reason.
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
Build = Callable[[list[Node], str], Node]  # called with the arguments and the zone of the condition

# The columns that examples can use, by name, with types for ``ivjoin.expr.types.named``. There are also nested columns:
# a struct st (q, name, inner.w), arrays xs and ss, a map mp and an interval md.
COLUMNS = {
    "a": "int64", "b": "int64", "n": "int32", "m": "int32", "x": "double", "y": "double", "f": "float",
    "p": "decimal(10, 2)", "q": "decimal(8, 3)", "s": "string", "u": "string", "z": "binary", "d": "date", "e": "date",
    "t": "timestamp[us, UTC]", "v": "timestamp[us, UTC]", "i": "duration[us]", "j": "duration[us]", "k": "bool",
    "o": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Absent:
    """The reason why a part of an operator is missing."""

    why: str


NOT_LINEAR = Absent("the value is not a sum of multiples of the arguments")
NO_NUMBER = Absent("the value is not a number")
NO_ORDER = Absent("the value does not follow the order of an argument")
BOTH_WAYS = Absent("the value rises in one range and falls in another")
LIBRARY = Absent("the last digit of a library function may fall while the argument rises")
NOT_IN_SYMPY = Absent("SymPy does not have this function")
TEXT_BOUNDS = Absent("the interval rules do not handle ranges of strings")


def always(n: Node) -> bool:
    return True


def never(n: Node) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Meaning:
    """The exact kernel and the interval rule of an operator, for arguments of one kind.

    ``exact(node, constants)`` returns the kernel. ``bounds`` creates the interval rule. ``no_forward`` and
    ``no_backward`` are the reasons for a missing direction of the rule. ``never_errs`` returns whether the operator has
    no error for any values of the argument types.
    """

    exact: Exact
    bounds: Maker | Absent
    no_forward: str = ""
    no_backward: str = ""
    never_errs: Callable[[Node], bool] = never


def quiet(exact: Exact, bounds: Maker, no_forward: str = "", no_backward: str = "") -> Meaning:
    """Return a meaning of an operator that never has an error of its own."""
    return Meaning(exact, bounds, no_forward, no_backward, always)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of SQL and Python expressions: its names, its number of arguments, and its constructor."""

    names: tuple[str, ...]
    least: int
    most: int
    make: Build


def call(names: str, least: int, most: int, make: Build) -> Call:
    """Return a function with one or more names, separated by spaces."""
    return Call(tuple(names.split()), least, most, make)


def one(names: str, make: Callable[[Node], Node]) -> Call:
    """Return a function of one argument."""
    return call(names, 1, 1, lambda a, z: make(a[0]))


def of_texts(f: Call) -> Call:
    """Return the same function for texts. An instant becomes the text of its local time."""
    return replace(f, make=lambda a, z: f.make([local_text(x, z) for x in a], z))


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """The definition of an operator."""

    name: str  # the name of its nodes (see ``ivjoin.expr.nodes``), or of a string function in pyarrow.compute
    meanings: Mapping[str, Meaning]  # by the kind of the arguments (``time`` if one is a time), or ``*`` for all
    examples: tuple[str, ...]  # expressions over COLUMNS, at least one for each meaning
    text: Written  # writes the operator as SQL
    direction: DirectionRule | Absent  # derives the order of its values
    linear: Linear | Absent  # its linear forms
    build: Build | None = None  # the constructor for Python operators, infix SQL and SymPy
    infix: str = ""  # the name of the infix operator in sqlglot
    calls: tuple[Call, ...] = ()  # SQL functions that are read as this operator
    sympy: str | Absent = field(default=NOT_IN_SYMPY)  # the class in SymPy
    warns: bool | None = None  # whether the kernel may cause NumPy warnings; None: only for floats
    passes_null: Callable[[Node], bool] = always  # a row is NULL or has an error exactly if an argument does
    passes_nan: Callable[[Node], bool] = never  # if an argument is NaN or NULL, the row is NaN, NULL or an error
    skips_null: bool = False  # a row is NULL only if all arguments are NULL
    lazy: bool = False  # if the first argument decides the result, the others are not evaluated
    inner: bool = False  # only bands create it, so it has no SQL text
