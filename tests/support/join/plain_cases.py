"""Random joins that compiled blocks can take: columns of fixed width, one key or none, bands of columns, any batches.

Few batches have a null or a late row, so that blocks are left and come back to.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
from hypothesis import strategies as st
from join import conditions as c
from join.cases import Case, OrderSpec
from join.conditions import Term
from join.strategies import Draw, SideDraw, arranged, has_distance, script, slack_value, values
from join.tables import KINDS, Kind
from weights import SOAK

BANDS = (
    "int64", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "float64", "float32", "dec10",
    "date32", "ts_us", "ts_s", "tsz_us", "dur_ms", "time32", "time64",
)  # fmt: skip
KEYS = (
    "int64", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "float64", "float32", "dec10",
    "date32", "ts_us", "dur_ms",
)  # fmt: skip
# Payload alone: its bytes are copied, and nothing looks at them.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAYLOAD = tuple(
    Kind(f"fixed{n}", pa.binary(n), tuple((_LETTERS[i:] + _LETTERS)[:n].encode() for i in range(9)), "bin")
    for n in (1, 2, 3, 4, 8, 16, 20, 24)
)


class PlainSide(SideDraw):
    def __init__(self, draw: Draw, key: Kind, band: Kind, rows: int, windows: list[tuple[int, int]]) -> None:
        self.draw = draw
        holes = [draw(st.integers(0, 9)) == 0 for _ in range(3)]
        self.kinds = {"n": KINDS["int64"], "k": key, "a": band, "b": band, "p": draw(st.sampled_from(PAYLOAD))}
        self.data = {
            "n": list(range(rows)), "k": values(draw, key, rows, holes[0], windows[0]),
            "a": values(draw, band, rows, holes[1], windows[1]), "b": values(draw, band, rows, False, windows[1]),
            "p": values(draw, self.kinds["p"], rows, holes[2]),
        }
        self.orders = []
        self.rows = rows

    def declare(self) -> None:
        draw = self.draw
        for name in draw(st.sampled_from(("", "a", "a", "a", "ab", "b"))):
            kind = self.kinds[name]
            descending = not kind.is_float and draw(st.integers(0, 3)) == 0
            slack, distance = None, Fraction(0)
            if kind.family in ("int", "uint", "ts", "date") and draw(st.integers(0, 2)) == 0:
                slack, distance = slack_value(kind, draw(st.integers(0, 5)))
            order = arranged(draw, self.seen(name), descending, distance, None)
            self.data[name] = [self.data[name][i] for i in order]
            self.orders.append(OrderSpec(name, descending, slack, None))

    def watermark(self, pushed: int) -> None:
        return None


def band(draw: Draw, kind: Kind) -> Term | None:
    (la, lb), (ra, rb) = ((c.col(s, "a", kind), c.col(s, "b", kind)) for s in "lr")
    op = st.sampled_from(("<", "<=", ">", ">=", "="))
    shapes: list[Callable[[], Term | None]] = [
        lambda: None,
        lambda: c.compare(la, draw(op), ra),
        lambda: c.all_of(c.compare(la, draw(op), ra), c.compare(lb, draw(op), rb)),
        lambda: c.all_of(c.compare(la, "<=", ra), c.compare(lb, ">=", ra)),
    ]
    if has_distance(kind) and kind.family != "uint" and kind.family != "f32":
        near, far = (c.span(kind, draw(st.integers(0, n))) for n in (4, 6))
        window = c.between(la, c.arith("-", ra, near), c.arith("+", ra, far))
        shapes += [lambda: window, lambda: window, lambda: c.all_of(window, c.compare(lb, draw(op), rb))]
    return draw(st.sampled_from(shapes))()


@st.composite
def plain_cases(draw: Draw, max_rows: int = 60 if SOAK else 24) -> Case:
    """A join of two inputs that keep their promises."""
    kind, key = KINDS[draw(st.sampled_from(BANDS))], KINDS[draw(st.sampled_from(KEYS))]
    windows = [(draw(st.integers(0, 12)), draw(st.sampled_from((1, 2, 4)))), draw(st.sampled_from(((0, 100), (3, 8))))]
    left, right = (PlainSide(draw, key, kind, draw(st.integers(0, max_rows)), windows) for _ in "lr")
    left.declare()
    right.declare()
    return Case(
        left.table(),
        right.table(),
        draw(st.sampled_from(("inner", "left", "right", "full"))),
        (("k", "k"),) if draw(st.integers(0, 3)) else (), band(draw, kind), tuple(left.orders), tuple(right.orders),
        None, None, draw(st.sampled_from((1, 2, 5, 65536, 65536))), tuple(script(draw, left, right)),
        draw(st.booleans()),
        {"on_late": draw(st.sampled_from(("raise", "drop", "join")))},
    )
