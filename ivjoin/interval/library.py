"""The public names of ``ivjoin.interval``: all names of some modules, and some names of the others."""

# ruff: noqa: F403
from ivjoin.interval.errors import IntervalError, IntervalTypeError
from ivjoin.interval.machine.domains import domain
from ivjoin.interval.machine.rounding import FloatModeError, check_float_mode
from ivjoin.interval.machine.types import Type as Domain
from ivjoin.interval.reals import elementary, reverse_trig, trigonometric
from ivjoin.interval.reals.arithmetic import fma, pos, recip, round_ties_to_away, round_ties_to_even, sqrt, trunc
from ivjoin.interval.reals.bare import EMPTY, ENTIRE, Interval
from ivjoin.interval.reals.elementary import *
from ivjoin.interval.reals.numeric import mid_rad, rad
from ivjoin.interval.reals.relations import Overlap
from ivjoin.interval.reals.reverse import cosh_rev
from ivjoin.interval.reals.reverse_trig import *
from ivjoin.interval.reals.sets import cancel_minus, cancel_plus
from ivjoin.interval.reals.trigonometric import *
from ivjoin.interval.typed import generic, logic, pieces, truths
from ivjoin.interval.typed.exact import cast, cast_rev, pmod, pmod_rev1, pmod_rev2, rem, rem_rev1, rem_rev2
from ivjoin.interval.typed.generic import *
from ivjoin.interval.typed.intervals import DomainInterval, entire, interval
from ivjoin.interval.typed.logic import *
from ivjoin.interval.typed.pieces import *
from ivjoin.interval.typed.truths import *

__all__ = [
    "Domain", "DomainInterval", "EMPTY", "ENTIRE", "FloatModeError", "Interval", "IntervalError", "IntervalTypeError",
    "Overlap", "cancel_minus", "cancel_plus", "cast", "cast_rev", "check_float_mode", "cosh_rev", "domain", "entire",
    "fma", "interval", "mid_rad", "pmod", "pmod_rev1", "pmod_rev2", "pos", "rad", "recip", "rem", "rem_rev1",
    "rem_rev2", "round_ties_to_away", "round_ties_to_even", "sqrt", "trunc",
]  # fmt: skip
__all__ += elementary.__all__
__all__ += reverse_trig.__all__
__all__ += trigonometric.__all__
__all__ += generic.__all__
__all__ += logic.__all__
__all__ += pieces.__all__
__all__ += truths.__all__
