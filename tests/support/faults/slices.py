"""Faults of joins in slices: the rows of a slice, the rows it owns, and its index step."""

from __future__ import annotations

from faults.mutant import Mutant

_TESTS = "tests/join/rows/test_slices.py tests/join/rows/test_whole.py"
_STREAMS = "tests/join/threads"
_LOOKUPS = "tests/stream/test_lookups_of_files.py tests/join/test_lookups_in_duckdb.py"

SLICES = [
    Mutant("a slice lacks the last rows of the other side that can match", "ivjoin/stream/tables/table_join.py",
         "low.up_to(int(own[end - 1]))", "low.below(int(own[end - 1]))", _TESTS),
    Mutant("a slice lacks the first rows of the other side that can match", "ivjoin/stream/tables/table_join.py",
         "high.below(int(own[max(start, missing)]))", "high.up_to(int(own[max(start, missing)]))", _TESTS),
    Mutant("a full join copies no own rows to the slice before", "ivjoin/stream/tables/table_join.py",
         'last = max(end, count_to(own, high.at(end_home - 1), True))', "last = end", _TESTS),
    Mutant("a row of the other side is at home in two slices", "ivjoin/stream/tables/table_join.py",
         "home = end_home\n    return out", "home = end_other\n    return out", _TESTS),
    Mutant("a key table grows between the two sides of a slice", "ivjoin/operator/match/whole.py",
         "self.keys.reserve(sum(batch.num_rows for batch in batches))", "self.keys.reserve(0)", _TESTS),
    Mutant("a closed end of a band is an open one", "ivjoin/shj/kernels/slices/place_kernels.py", "far = by + 1",
         "far = by", _TESTS),
    Mutant("the row behind a probe row's range matches, too", "ivjoin/shj/kernels/slices/slice_kernels.py",
         "count += np.int64((q + u < end) & (j < hi))", "count += np.int64((q + u < end) & (j <= hi))", _TESTS),
    Mutant("a probe row whose key is beyond the narrow ones has the last one's rows",
         "ivjoin/shj/kernels/slices/slice_kernels.py", "good = (key >= least) & (key <= top)",
         "good = (key >= least) & (key <= top + 1)", _TESTS),
    Mutant("a slice emits its copies of own rows", "ivjoin/shj/kernels/slices/slice_join.py",
         "s.probe_to if s.segment == 1 else n", "n if s.segment == 1 else n", _TESTS),
    Mutant("a row whose pairs fill the scratch begins again", "ivjoin/shj/kernels/slices/slice_kernels.py",
         "state[1] = q\n    state[2] = began", "state[1] = -1\n    state[2] = began", _TESTS),
    Mutant("a sum forgets the bits that only round it", "ivjoin/shj/kernels/lookup/sum_kernels.py",
         "np.float64(high | (low != 0))", "np.float64(high)", "tests/shj/kernels/test_sum_kernels.py"),
    Mutant("a slice of a stream emits the rows whose home is the slice before",
         "ivjoin/stream/threads/slice_joins.py",
         "start = 0 if p == self.cut.own else sum(piece.below(self.start) for piece in pieces)", "start = 0", _STREAMS),
    Mutant("a slice of a stream is joined without its order", "ivjoin/stream/threads/slice_joins.py",
         "if not follow(pieces):", "if not pieces:", _STREAMS),
    Mutant("a slice of a full join of streams lacks the rows that its last rows reach",
         "ivjoin/stream/threads/slice_joins.py", "reach = max([end, *(top + 1 for top in tops)])", "reach = end",
         _STREAMS),
    Mutant("a slice of a stream keeps no rows for the next one", "ivjoin/stream/threads/slice_joins.py",
         "piece.ending_from(end)", "piece.starting_from(end)", _STREAMS),
    Mutant("rows of slices before are emitted again if slices end", "ivjoin/stream/threads/sliced_stream.py",
         "op.push_matched(SIDES[p], piece.batch.slice(0, copies))", "op.push(SIDES[p], piece.batch.slice(0, copies))",
         _STREAMS),
    Mutant("a slice of an as-of join leaves the first row of each key", "ivjoin/stream/threads/carried.py",
         "last[kids] = np.arange(len(kids))", "last[kids[::-1]] = np.arange(len(kids))[::-1]", _LOOKUPS),
    Mutant("a slice of an as-of join leaves no row that a tolerance reaches by its whole length",
         "ivjoin/stream/threads/carried.py", ">= min(end, I64_MAX)", "> min(end, I64_MAX)", _LOOKUPS),
    Mutant("rows left by earlier slices are lost if slices end", "ivjoin/stream/threads/sliced_stream.py",
         "yield from self._counted(op.push(SIDES[1], self._carried.batch))", "yield from ()", _LOOKUPS),
    Mutant("a part of the left rows is joined twice", "ivjoin/stream/tables/lookup_parts.py",
         "some, n, first = [], 0, 1", "n, first = 0, 1", _LOOKUPS),
]  # fmt: skip
