"""Push batches of a stream whose rows arrive up to five seconds late, with a snapshot in between."""

import pyarrow as pa

import ivjoin

SCHEMA = pa.schema({"machine": pa.string(), "second": pa.int64(), "what": pa.string()})


def operator() -> ivjoin.SymmetricHashJoin:
    """Join each alarm with the readings of the ten seconds before it. Alarms without readings are also emitted."""
    order = ivjoin.Order("second", slack=5)
    return ivjoin.SymmetricHashJoin(
        SCHEMA, SCHEMA, on="machine", condition="r.second BETWEEN l.second - 10 AND l.second", how="left",
        left_order=order, right_order=order, on_late="drop",
    )  # fmt: skip


def push(op: ivjoin.SymmetricHashJoin, side: str, *rows: tuple[str, int, str]) -> None:
    batch = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
    for out in op.push(side, batch):
        for row in out.to_pylist():
            print(f"  {row['what']} at {row['second']}: {row['what_right'] or 'nothing before it'}")


op = operator()
push(op, "right", ("m1", 3, "hot"), ("m2", 4, "fine"), ("m1", 9, "very hot"))
push(op, "left", ("m1", 10, "alarm"), ("m3", 11, "alarm"))
op = ivjoin.SymmetricHashJoin.restore(op.snapshot())  # as after a restart
print("later:")
push(op, "right", ("m1", 7, "hotter"), ("m2", 30, "fine"), ("m1", 8, "too late"))
push(op, "left", ("m2", 31, "alarm"))
for batch in op.finish():
    print(batch.to_pylist())
print(op.metrics.late_rows, "late row")
