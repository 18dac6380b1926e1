"""Damaged files, snapshots and plans, joined in a process of their own: ``python damage.py KIND FIRST LAST``.

Each seed flips bits of a good file, cuts it, or repeats or removes a part of it. The process prints ``seed outcome``
for each: ``error``, ``rows``, or ``WRONG`` with the reason. A crash ends it, and the caller finds the seed that it had
begun.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import tempfile
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import ivjoin
from ivjoin import routing
from ivjoin.errors import IvjoinError
from ivjoin.files.datasets import open_files

KINDS = (
    "arrow", "arrows", "parquet", "csv", "json", "stdin", "snapshot", "forged snapshot", "snapshot of many",
    "forged snapshot of many", "forged rows", "plans", "forged plans",
)  # fmt: skip
_N = 60
_BAND = "l.t BETWEEN r.t - 2 AND r.t + 2"
_START = datetime(2024, 1, 1)


def rows(flat: bool) -> pa.Table:
    """Rows of types whose arrays have offsets, indices, bits and children; ``flat``: those that CSV has."""
    columns: dict[str, Any] = {
        "k": pa.array([i % 5 if i % 11 else None for i in range(_N)], pa.int64()),
        "t": pa.array(range(_N), pa.int64()),
        "s": pa.array([f"text {i % 7}" if i % 6 else None for i in range(_N)]),
        "d": pa.array([i / 3 for i in range(_N)]),
        "at": pa.array([_START + timedelta(hours=i) for i in range(_N)], pa.timestamp("us")),
        "b": pa.array([i % 3 == 0 for i in range(_N)]),
    }
    if not flat:
        columns |= {
            "list": pa.array([[f"x{j}" for j in range(i % 4)] for i in range(_N)]),
            "struct": pa.array([{"a": i, "b": f"y{i}"} for i in range(_N)]),
            "word": pa.array([f"w{i % 4}" for i in range(_N)]).dictionary_encode(),
            "bytes": pa.array([bytes([i]) * (i % 5) for i in range(_N)], pa.large_binary()),
            "n": pa.array([Decimal(i) / 4 for i in range(_N)], pa.decimal128(10, 2)),
        }
    return pa.table(columns)


def damaged(good: bytes, draw: random.Random) -> bytes:
    """The bytes with one to four mistakes."""
    data = bytearray(good)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        at = draw.randrange(max(1, len(data)))
        what = draw.random()
        if not data:
            break
        if what < 0.6:
            data[at] ^= 1 << draw.randrange(8)
        elif what < 0.7:
            data[at] = draw.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif what < 0.8:
            del data[at:]
        elif what < 0.9:
            del data[at : at + draw.randrange(1, 40)]
        else:
            data[at:at] = data[at : at + draw.randrange(1, 40)]
    return bytes(data)


# -- files ------------------------------------------------------------------------------------------------------------


def made(kind: str, folder: Path) -> bytes:
    """A good file of a kind."""
    table = rows(kind in ("csv", "json"))
    path = folder / f"good.{kind}"
    if kind == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
    elif kind in ("arrows", "stdin"):
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
    elif kind == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path, row_group_size=25)
    elif kind == "csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    else:
        lines = [json.dumps(r, default=str) + "\n" for r in table.to_pylist()]
        path.write_text("".join(lines))
    return path.read_bytes()


def nested_loop(left: pa.Table, right: pa.Table) -> Counter[str]:
    rights = right.to_pylist()
    found: Counter[str] = Counter()
    for a in left.select(["k", "t", "s"]).to_pylist():
        for b in rights:
            if None not in (a["k"], b["k"], a["t"], b["t"]) and a["k"] == b["k"] and abs(a["t"] - b["t"]) <= 2:
                found[repr([a["t"], a["s"], b["t"]])] += 1
    return found


def joined_file(kind: str, folder: Path, data: bytes) -> str:
    """What comes of a damaged file, compared with a nested loop over the rows that are read from it."""
    path, right = folder / f"bad.{'arrows' if kind == 'stdin' else kind}", rows(True).select(["k", "t"])
    path.write_bytes(data)
    source: Any = path
    if kind == "stdin":
        try:
            source = pa.ipc.open_stream(data)
        except (pa.ArrowException, OSError, ValueError):
            return "error"  # of pyarrow, before there is a join
    names = ["t", "s", "t_right"]
    try:
        got = ivjoin.band_join(source, right, on="k", condition=_BAND, columns=names).read_all()
        if kind == "stdin":
            return "rows"
        ivjoin.band_join(path, right, on="k", condition=_BAND + " AND upper(l.s) > 'A'", how="left").read_all()
        files = open_files(path)
        left = pa.Table.from_batches(files.batches(None), files.schema)
        if not all(pa.types.is_integer(left.schema.field(n).type) for n in ("k", "t")):
            return "rows"  # of a text in which a number became another type
        want = nested_loop(left, right)
    except IvjoinError as e:
        named = path.name in str(e) or not str(e).startswith("cannot read")
        return "error" if named else f"WRONG: an error without the file: {e}"
    except (pa.ArrowException, OSError) as e:
        return "error" if kind == "stdin" else f"WRONG: {type(e).__name__}: {e}"
    found = Counter(repr(list(r.values())) for r in got.to_pylist())
    return "rows" if found == want else f"WRONG: {found - want} more, {want - found} less"


# -- snapshots --------------------------------------------------------------------------------------------------------


def operator(many: bool, which: int) -> Any:
    schema = rows(False).schema
    batch = rows(False).combine_chunks().to_batches()[0]
    if many:
        condition = "a.k = b.k AND a.t BETWEEN b.t - 2 AND b.t + 2 AND b.t = c.t"
        op: Any = ivjoin.MultiJoin({"a": schema, "b": schema, "c": schema}, condition, orders={"a": "t"})
        for alias in ("a", "b"):
            list(op.push(alias, batch.slice(0, 40)))
        return op
    options: list[dict[str, Any]] = [
        {"on": "k", "condition": _BAND, "left_order": "t", "right_order": ivjoin.Order("t", slack=3)},
        {"on": "s", "condition": "l.d <= r.d AND l.word <> r.word", "how": "full", "left_order": "at"},
        {"on": "k", "condition": "l.t >= r.t", "left_order": "t", "right_order": "t", "pick": ivjoin.Pick("t", "last")},
        {"on": "k", "condition": _BAND, "aggregate": {"count": ("*", "count"), "mean": ("d", "mean")}, "how": "left",
         "left_order": "t", "right_order": "t"},
        {"on": "k", "condition": _BAND, "memory_limit": "64MB", "when_full": "shed", "left_order": "t"},
    ]  # fmt: skip
    op = ivjoin.SymmetricHashJoin(schema, schema, **options[which % len(options)])
    list(op.push("left", batch.slice(0, 40)))
    list(op.push("right", batch.slice(0, 30)))
    return op


def unsealed(blob: bytes) -> tuple[Any, bytes]:
    """The header of a snapshot, and the bytes that follow it."""
    size = int.from_bytes(blob[14:22], "little")
    return json.loads(blob[22 : 22 + size]), blob[22 + size :]


def sealed(blob: bytes, header: Any, rest: bytes) -> bytes:
    """A snapshot with another header and other bytes, and a checksum that fits."""
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + rest
    return blob[:10] + zlib.crc32(body).to_bytes(4, "little") + body


def sealed_again(blob: bytes, draw: random.Random) -> bytes:
    """Damage behind the checksum, which is made to fit."""
    header, rest = unsealed(blob)
    if draw.random() < 0.6:
        for _ in range(draw.choice([1, 1, 2])):
            header = forged(header, draw)
    else:
        rest = damaged(rest, draw)
    return sealed(blob, header, rest)


def forged(value: Any, draw: random.Random) -> Any:
    """The same JSON with another value somewhere."""
    places: list[tuple[Any, Any]] = []

    def visit(x: Any) -> None:
        items = list(x.items()) if isinstance(x, dict) else list(enumerate(x)) if isinstance(x, list) else []
        for key, child in items:
            places.append((x, key))
            visit(child)

    value = json.loads(json.dumps(value))
    visit(value)
    if not places:
        return value
    inside, key = draw.choice(places)
    what, old = draw.random(), inside[key]
    if what < 0.15:
        del inside[key]
    elif what < 0.3 and isinstance(old, str) and len(old) > 3:
        try:
            inside[key] = base64.b64encode(damaged(base64.b64decode(old, validate=True), draw)).decode()
        except ValueError:
            inside[key] = old[: draw.randrange(len(old))]
    elif what < 0.6 and isinstance(old, (int, float)):
        inside[key] = draw.choice([old + 1, -old, -1, 0, 1 << 40, 1 << 62, -(1 << 63), 1 << 64, 1 << 200, 0.5, not old])
    elif what < 0.7 and isinstance(inside, list):
        inside.append(old)
    else:
        inside[key] = draw.choice([None, True, -1, 0, 1 << 33, "x", [], {}, [old], {"x": old}, 1.5, "t", "left"])
    return value


def restored(kind: str, blob: bytes, good: bytes) -> str:
    many, forging = "many" in kind, "forged" in kind
    join: Any = ivjoin.MultiJoin if many else ivjoin.SymmetricHashJoin
    try:
        op = join.restore(blob)
        if not forging:
            return "rows" if blob == good else "WRONG: damage was not found"
        batch = rows(False).combine_chunks().to_batches()[0]
        for side in ("a", "b", "c") if many else ("left", "right"):
            list(op.push(side, batch.slice(40)))
        for side in ("a", "b", "c") if many else ("left", "right"):
            list(op.finish(side))
        assert op.metrics
        op.snapshot()
    except IvjoinError:
        return "error"
    return "rows"


def forged_rows(blob: bytes, draw: random.Random) -> tuple[bytes, list[pa.Table]]:
    """A snapshot whose rows have other values, and these rows."""
    header, rest = unsealed(blob)
    parts, tables, at = [], [], 0
    for n in header["sizes"]:
        batch = pa.ipc.open_stream(rest[at : at + n]).read_next_batch()
        at += n
        columns = [list(c) for c in batch.to_pydict().values()]
        for _ in range(draw.choice([1, 3, 30])):
            column = draw.choice(columns)
            column[draw.randrange(batch.num_rows)] = draw.choice(column)
        for column in columns[:2]:  # the key and the place
            if draw.random() < 0.5:
                column[draw.randrange(batch.num_rows)] = draw.choice([0, -1, 40, 45, 2**63 - 1, -(2**63), None])
        columns[-1] = [bool(x) for x in columns[-1]]
        rows = pa.record_batch(
            [pa.array(c, f.type) for c, f in zip(columns, batch.schema, strict=True)], schema=batch.schema
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        parts.append(sink.getvalue().to_pybytes())
        tables.append(pa.Table.from_batches([rows]))
    header["sizes"] = [len(p) for p in parts]
    return sealed(blob, header, b"".join(parts)), tables


def joined_rows(good: bytes, draw: random.Random) -> str:
    """What comes of rows that others replaced, compared with a nested loop over them."""
    blob, stored = forged_rows(good, draw)
    try:
        op = ivjoin.SymmetricHashJoin.restore(blob)
        new = rows(False).slice(40).combine_chunks()
        found: Counter[str] = Counter()
        for side in ("left", "right"):
            for batch in op.push(side, new.to_batches()[0]):
                found.update(repr([r["t"], r["s"], r["t_right"]]) for r in batch.to_pylist())
    except IvjoinError as e:
        no_value = any(t.column(i).null_count for t in stored for i in (0, 1))
        return "error" if no_value or "integer overflow in r.t" in str(e) else f"WRONG: {e}"
    left, right = (
        t.select(range(new.num_columns)).rename_columns(new.schema.names).select(["k", "t", "s"]) for t in stored
    )
    new = new.select(["k", "t", "s"])
    want = nested_loop(new, right) + nested_loop(left, new) + nested_loop(new, new)
    return "rows" if found == want else f"WRONG: {found - want} more, {want - found} less"


# -- plans ------------------------------------------------------------------------------------------------------------


_SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64()})


def plan_text() -> str:
    draw = random.Random(1)
    table = pa.table({"k": [min(9, int(draw.expovariate(0.5))) for _ in range(400)], "t": range(400)}, schema=_SCHEMA)
    return routing.plan_to_json(routing.plan_join(table, table, workers=6, on="k", condition=_BAND))


def planned(text: bytes) -> str:
    try:
        plan = routing.plan_from_json(text.decode("utf-8", "replace"), _SCHEMA, _SCHEMA, on="k", condition=_BAND)
        batch = pa.record_batch({"k": range(20), "t": range(20)}, schema=_SCHEMA)
        for side in ("left", "right"):
            plan.cells(side, batch)
    except IvjoinError:
        return "error"
    return "rows"


# -- the process ------------------------------------------------------------------------------------------------------


def case(kind: str, folder: Path) -> Callable[[random.Random, int], str]:
    if kind == "forged rows":
        order, schema = ivjoin.Order("t", slack=30), rows(False).schema
        op = ivjoin.SymmetricHashJoin(
            schema, schema, on="k", condition=_BAND, left_order=order, right_order=order, batch_size=50
        )
        for side in ("left", "right"):
            list(op.push(side, rows(False).slice(0, 40).combine_chunks().to_batches()[0]))
        saved = bytes(op.snapshot())
        return lambda draw, seed: joined_rows(saved, draw)
    if "snapshot" in kind:
        goods = [operator("many" in kind, i).snapshot() for i in range(1 if "many" in kind else 5)]

        def snapshot(draw: random.Random, seed: int) -> str:
            good = bytes(goods[seed % len(goods)])
            return restored(kind, (sealed_again if "forged" in kind else damaged)(good, draw), good)

        return snapshot
    if "plans" in kind:
        text = plan_text()

        def plan(draw: random.Random, seed: int) -> str:
            if "forged" in kind:
                return planned(json.dumps(forged(json.loads(text), draw)).encode())
            return planned(damaged(text.encode(), draw))

        return plan
    good = made(kind, folder)
    return lambda draw, seed: joined_file(kind, folder, damaged(good, draw))


def main(kind: str, first: int, last: int) -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        run = case(kind, Path(folder))
        for seed in range(first, last):
            print(seed, end=" ", flush=True)
            try:
                outcome = run(random.Random(f"{kind} {seed}"), seed)
            except Exception as e:
                where = traceback.extract_tb(e.__traceback__)[-1]
                outcome = f"WRONG: {type(e).__name__}: {e} ({Path(where.filename).name}:{where.lineno})"
            print(" ".join(outcome.split())[:400], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
