"""The limit seen from outside: a process stays within it and 64 MB, whatever its rows are and however they come."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from resident import needs_resident

pytestmark = needs_resident

TESTS = Path(__file__).parent.parent
BEYOND = 64_000_000

_CHILD = """
import json, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
asked = json.loads(sys.argv[3])
import numpy as np, pyarrow as pa
from ivjoin import MemoryLimitError, SymmetricHashJoin, band_join
from ivjoin.stream import pull

kind, rows, window, keys, folder = (asked[name] for name in ("kind", "rows", "window", "keys", "folder"))
N = asked["batch"]
words = pa.array([f"{x:08d}" * 12 for x in range(1000)])

def payload(rng, n):
    which = pa.array(rng.integers(0, len(words), n))
    if kind == "text":
        return words.take(which)
    if kind == "struct":
        return pa.StructArray.from_arrays([pa.array(rng.random(n)), words.take(which)], ["a", "b"])
    if kind == "list":
        return pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * 10, pa.array(rng.random(10 * n)))
    if kind == "dictionary":
        return pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 1000, n), pa.int32()), words)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(80), n, [None, pa.py_buffer(rng.random(10 * n))])

def batch(i, side, n=None):
    n = n or N
    rng = np.random.default_rng((i, side))
    k = pa.array(rng.integers(0, keys, n))
    if kind == "text key":
        k = pa.compute.binary_join_element_wise(k.cast(pa.string()), "a key of a text", " ")
    t = np.arange(i * n, i * n + n)
    return pa.record_batch({"k": k, "t": t, "u": rng.random(n) * keys, "p": payload(rng, n)})

question = {"condition": f"abs(l.t - r.t) <= {window}", "left_order": "t", "right_order": "t"}
if kind == "no key":
    question["condition"] += " AND abs(l.u - r.u) < 0.3"
else:
    question["on"] = "k"
if kind == "residual":
    question["condition"] += " AND (l.u < r.u OR l.p <> r.p)"
limit = {"memory_limit": asked["limit"], "when_full": "spill", "spill_dir": folder} if asked["limit"] else {}
schema = batch(0, 0, 1).schema

def status(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024

def pushed(rows, **limit):
    op = SymmetricHashJoin(schema, schema, **question, **limit)
    found = 0
    for i in range(max(1, rows // 2 // N)):
        for s, side in enumerate(("left", "right")):
            for out in op.push(side, batch(i, s)):
                found += out.num_rows
    return op, found

def pulled(rows, **limit):
    read = lambda s: pa.RecordBatchReader.from_batches(schema, (batch(i, s) for i in range(max(1, rows // 2 // N))))
    stream = band_join(read(0), read(1), **question, **limit)
    return stream, sum(out.num_rows for out in stream)

def at_once(rows, **limit):
    global whole
    op, found = SymmetricHashJoin(schema, schema, **question, **limit), 0
    for side, batch in zip(("left", "right"), whole or [batch_of(rows // 2, s) for s in (0, 1)]):
        for out in op.push(side, batch):
            found += out.num_rows
    return op, found

def batch_of(n, s):
    return pa.Table.from_batches(batch(i, s) for i in range(max(1, n // N))).combine_chunks().to_batches()[0]

whole = []
way = {"push": pushed, "pull": pulled, "one push": at_once}[asked["way"]]
small = {"memory_limit": 600_000, "when_full": "spill", "spill_dir": folder}
N = 1024
way(20_000, **small)
way(20_000)
N = asked["batch"]
if way is at_once:
    whole = [batch_of(rows // 2, s) for s in (0, 1)]  # the caller's own
start = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
op, found = way(rows, **limit)
m = op.metrics
print(json.dumps({"over": status("VmHWM") - start, "found": found, "need": m.peak_state_bytes,
                  "files": m.spilled_bytes + m.reads, "left": m.state_rows}))
"""


def run(
    kind: str, way: str, limit: int, rows: int, window: int, keys: int, folder: Path, batch: int = 8192
) -> dict[str, int]:
    asked = {
        "kind": kind, "way": way, "limit": limit, "rows": rows, "window": window, "keys": keys, "folder": str(folder),
        "batch": batch,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(TESTS.parent), str(TESTS), json.dumps(asked)], check=False,
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said: dict[str, int] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize(
    ("kind", "way", "rows", "window"),
    [("struct", "push", 400_000, 140_000), ("list", "one push", 400_000, 190_000),
     pytest.param("struct", "push", 1_600_000, 600_000, marks=pytest.mark.soak),
     pytest.param("list", "pull", 1_600_000, 600_000, marks=pytest.mark.soak),
     pytest.param("dictionary", "push", 400_000, 140_000, marks=pytest.mark.soak),
     pytest.param("no key", "push", 600_000, 250_000, marks=pytest.mark.soak)],
)  # fmt: skip
def test_the_process_stays_within(kind: str, way: str, rows: int, window: int, tmp_path: Path) -> None:
    """At half of what the join needs, with the rows of the join in memory."""
    keys = max(100_000, rows // 4)
    free = run(kind, way, 0, rows, window, keys, tmp_path)
    limit = free["need"] // 2
    said = run(kind, way, limit, rows, window, keys, tmp_path)
    assert said["found"] == free["found"] > 0
    assert said["need"] <= limit
    assert said["files"] > 0
    assert said["over"] <= limit + BEYOND
    assert not list(tmp_path.iterdir())
