"""Use ``ivjoin.explain`` to see which rows a join stores, and what to declare so that it stores fewer."""

import pyarrow as pa

import ivjoin

LEFT = pa.schema({"k": pa.int64(), "ts": pa.int64(), "width": pa.int64()})
RIGHT = pa.schema({"k": pa.int64(), "ts": pa.int64()})

for title, options in {
    "nothing is declared": {},
    "both are ordered, the width is a column": {"left_order": "ts", "right_order": "ts"},
    "and the width has bounds": {"left_order": "ts", "right_order": "ts", "left_bounds": {"width": (0, 60)}},
}.items():
    text = ivjoin.explain(LEFT, RIGHT, condition="r.ts BETWEEN l.ts AND l.ts + l.width", on="k", **options)
    _, _, state = text.partition("state\n")
    print(f"{title}:\n{state.partition('threads')[0]}")
