"""Interim."""
from __future__ import annotations
import math
from typing import Any
from ivjoin.expr.types import Type
def nearest(v, bits):
    if bits == 64 or not math.isfinite(v): return v
    import struct
    try: return float(struct.unpack("f", struct.pack("f", v))[0])
    except OverflowError: return math.copysign(math.inf, v)
def next_above(v, bits):
    if bits == 64: return math.nextafter(v, math.inf)
    import numpy as np
    r = nearest(v, 32)
    return r if r > v else float(np.nextafter(np.float32(r), np.float32(np.inf)))
def next_below(v, bits): return -next_above(-v, bits)
def type_range(t):
    if t.kind == "float": return -math.inf, math.inf
    if t.kind == "bool": return 0, 1
    if t.is_discrete: return t.physical_range()
    return None, None
class Dom:
    __slots__ = ("hi", "lo", "may_nan", "may_null", "type")
    def __init__(self, type, lo, hi, may_null, may_nan):
        self.type, self.lo, self.hi, self.may_null, self.may_nan = type, lo, hi, may_null, may_nan
    @classmethod
    def of(cls, type, lo=None, hi=None, null=True, nan=True):
        least, most = type_range(type)
        if least is None: return cls(type, None, None, null, False)
        lo = least if lo is None else max(lo, least)
        hi = most if hi is None else min(hi, most)
        return cls(type, lo, hi, null, nan and type.kind == "float")
    @classmethod
    def top(cls, type): return cls.of(type)
    @classmethod
    def empty(cls, type, null=False, nan=False):
        if type_range(type)[0] is None: return cls(type, 1, 0, null, False)
        return cls(type, 1, 0, null, nan)
    @property
    def is_empty(self): return self.lo is not None and self.lo > self.hi
    @property
    def is_nothing(self): return self.is_empty and not self.may_null and not self.may_nan
    def meet(self, other):
        null, nan = self.may_null and other.may_null, self.may_nan and other.may_nan
        if self.is_empty or other.is_empty: return Dom.empty(self.type, null, nan)
        if self.lo is None or other.lo is None:
            k = other if self.lo is None else self
            return Dom(self.type, k.lo, k.hi, null, nan)
        lo, hi = max(self.lo, other.lo), min(self.hi, other.hi)
        return Dom(self.type, lo, hi, null, nan) if lo <= hi else Dom.empty(self.type, null, nan)
    def join(self, other):
        null, nan = self.may_null or other.may_null, self.may_nan or other.may_nan
        if self.is_empty: return Dom(self.type, other.lo, other.hi, null, nan)
        if other.is_empty: return Dom(self.type, self.lo, self.hi, null, nan)
        if self.lo is None or other.lo is None: return Dom(self.type, None, None, null, nan)
        return Dom(self.type, min(self.lo, other.lo), max(self.hi, other.hi), null, nan)
    def within(self, lo, hi):
        if self.is_empty or self.lo is None: return Dom(self.type, self.lo, self.hi, False, self.may_nan)
        lo, hi = max(self.lo, lo), min(self.hi, hi)
        return Dom(self.type, lo, hi, False, self.may_nan) if lo <= hi else Dom.empty(self.type, False, self.may_nan)
    def known(self): return Dom(self.type, self.lo, self.hi, False, self.may_nan)
    def number(self): return Dom(self.type, self.lo, self.hi, self.may_null, False)
    def same(self, o):
        return ((self.lo == o.lo and self.hi == o.hi) or (self.is_empty and o.is_empty)) and self.may_null == o.may_null and self.may_nan == o.may_nan
    def __repr__(self): return f"[{self.lo}, {self.hi}]{' NULL' if self.may_null else ''}{' NaN' if self.may_nan else ''}"
