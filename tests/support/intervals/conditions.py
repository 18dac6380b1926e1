"""Operators over whole numbers of eight bits."""

from __future__ import annotations

TWO = ["a + b", "a - b", "a * b", "a div b", "a % b", "pmod(a, b)", "a / b", "a & b", "a | b", "a ^ b",
       "shiftleft(a, b)", "shiftright(a, b)", "shiftrightunsigned(a, b)", "a = b", "a <> b", "a < b",
       "a <= b", "a > b", "a >= b", "a <=> b", "least(a, b)", "greatest(a, b)", "coalesce(a, b)",
       "try_add(a, b)", "try_subtract(a, b)", "try_multiply(a, b)", "try_mod(a, b)",
       "CASE WHEN a < b THEN a ELSE b + 1 END", "a < b AND a > -b", "a = b OR a > 100", "NOT (a < b)"]  # fmt: skip

# Shares of cases in which the hull itself is found at least, up and down, where that is not all: a result past its type
# errs, so that the greatest that does not is somewhere below; of bits, ranges of powers of two are followed;
# conjuncts and disjuncts with a column in common are bounded one by one.
WIDE: dict[str, tuple[float, float]] = {
    "bit_count(a)": (0.45, 0.3), "round(a, -1)": (0.7, 1), "bround(a, -1)": (0.65, 0.5),
    "CAST(a * 3 AS TINYINT)": (0.4, 1), "shiftrightunsigned(a, 2)": (0.5, 0.3), "a * a": (0.4, 1),
    "TRY_CAST(a * 2 AS TINYINT)": (0.65, 1), "CASE WHEN a < 3 THEN a + 1 ELSE -a END": (0.6, 1),
    "a * b": (0.35, 0.65), "a div b": (1, 0.85), "a % b": (0.8, 0.7), "pmod(a, b)": (0.65, 0.6),
    "a / b": (0.45, 0.55), "a & b": (0.45, 0.2), "a | b": (0.5, 0.15), "a ^ b": (0.3, 0.15),
    "shiftleft(a, b)": (0.0, 0.2), "shiftright(a, b)": (0.75, 0.4), "shiftrightunsigned(a, b)": (0.0, 0.15),
    "try_multiply(a, b)": (0.3, 0.65), "try_mod(a, b)": (0.75, 0.7),
    "CASE WHEN a < b THEN a ELSE b + 1 END": (0.35, 1), "a < b AND a > -b": (0.85, 0.75),
    "a = b OR a > 100": (0.99, 1),  # of a from 100 on and b = 100 both together are TRUE, neither alone is
}  # fmt: skip
