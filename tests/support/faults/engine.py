"""Faults of the layers above the kernels: operators, streams, files, routing, many inputs, Spark."""

from __future__ import annotations

from faults.mutant import Mutant

ENGINE = [
    Mutant("bytes of state are not counted", "ivjoin/operator/match/kernel/kernel_state.py",
         "        return held if in_files is None", "        return 0 if in_files is None",
         "tests/join/memory/test_state_account.py tests/join/memory/test_state_bytes.py"),
    Mutant("runs are merged past what was read", "ivjoin/stream/sort/outside.py", "end = min(ends, default=None)",
         "end = max(ends, default=None)", "tests/stream/sort/test_sorted_outside.py"),
    Mutant("an aggregate's range lacks its last row", "ivjoin/operator/lookup/run.py",
         "(lo, hi), high, after=True)", "(lo, hi), high)", "tests/join/aggregates"),
    Mutant("row groups before the last that was met are not tried", "ivjoin/plan/derived/row_groups.py",
         "(*range(at, len(others)), *range(at))", "range(at, len(others))", "tests/files"),
    Mutant("a right row reaches one plan too few", "ivjoin/routing/along.py",
         'side="right") for x in (f.low, f.high, f.home)', 'side="right") for x in (f.low, f.low, f.home)',
         "tests/routing"),
    Mutant("late rows are counted as held", "ivjoin/operator/lookup/lookup_state.py", "        m.late_rows += late\n",
         "", "tests/join/order/test_late_rows.py"),
    Mutant("of as-of joins, a left row at the end of what can come is decided", "ivjoin/operator/lookup/rows.py",
         "above = self.axes[a] > high", "above = self.axes[a] >= high", "tests/join/asof"),
    Mutant("the first partner is settled one value before no better one can come",
         "ivjoin/operator/lookup/picks/early.py", "out = best <= low if plain else best < low",
         "out = best <= low + 1 if plain else best < low", "tests/join/asof"),
    Mutant("the partners of a later run are not counted", "ivjoin/operator/lookup/aggregates/measures.py",
         "return Partial(a.count + b.count)", "return Partial(a.count)", "tests/join/aggregates"),
    Mutant("rows are dealt out over the grid of the other side", "ivjoin/routing/rows/cells.py",
         "return bool(((self._b if s else self._a) > 1).any())",
         "return bool(((self._a if s else self._b) > 1).any())", "tests/routing"),
    Mutant("an equal row may go to another cell", "ivjoin/routing/rows/cells.py",
         "        self._ends = _starts(self._b), _starts(self._a)\n",
         "        self._ends = _starts(self._a), _starts(self._b)\n", "tests/routing"),
    Mutant("of many inputs, a bound holds for the rows of one", "ivjoin/multi/reach.py",
         "low, high = min(a for a, _ in spans), max(b for _, b in spans)",
         "low, high = max(a for a, _ in spans), max(b for _, b in spans)", "tests/multi"),
    Mutant("of many inputs, NaN at the end of what is known is forgotten", "ivjoin/plan/derived/certain.py",
         'nan = t.kind == "float" and high >= NAN_ORDINAL', 'nan = t.kind == "float" and high > NAN_ORDINAL',
         "tests/multi"),
    Mutant("on Spark, only the first bucket learns how far a side has come", "ivjoin/spark/rows/pack.py",
         "(label, mark, None, seen.text(arrived), None) for label in labels]",
         "(label, mark, None, seen.text(arrived), None) for label in labels[:1]]",
         "tests/spark/streaming/test_when_rows_come_out.py tests/spark/streaming/test_stream_slices.py "
         "tests/spark/state/test_restarts.py"),
    Mutant("on Spark, rows of a bucket are packed as those of another", "ivjoin/spark/rows/pack.py",
         'order = np.argsort(small, kind="stable")', "order = np.arange(len(small))",
         "tests/spark/streaming/test_when_rows_come_out.py tests/spark/streaming/test_stream_slices.py "
         "tests/spark/state/test_restarts.py"),
    Mutant("on Spark, a side has come as far as its last batch", "ivjoin/spark/rows/pack.py",
         "self.edges[i] = top if before is None else max(before, top)", "self.edges[i] = top",
         "tests/spark/streaming/test_when_rows_come_out.py tests/spark/streaming/test_stream_slices.py "
         "tests/spark/state/test_restarts.py tests/spark/state/test_plain_parts.py"),
]  # fmt: skip
