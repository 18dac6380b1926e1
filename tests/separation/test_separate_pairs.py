"""The two promises of separate(), by brute force: random conditions against every row of a table of pairs."""

from __future__ import annotations

import math
from functools import partial
from itertools import islice

import pytest
from separation.pairs import FAMILIES, Author, Table, author_of, broken_promises, report, some_rows, some_value

from ivjoin.expr import build as b
from ivjoin.expr.types import FLOAT64
from ivjoin.plan.derived.inner_bounds import inner_bounds
from ivjoin.separation.separate import separate


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_random_conditions_keep_every_match(family):
    with_bands = replaced = matches = 0
    drafts = (author_of(family, seed) for seed in range(900))
    for author, condition in islice((d for d in drafts if d is not None), 150):
        sep = separate(condition, infer=partial(inner_bounds, never_null=frozenset()))
        rows = some_rows(author.columns, author.rng)
        broken = broken_promises(sep, rows, author.columns)
        assert not broken, report(broken, condition, author.seed)
        with_bands += bool(sep.bands)
        replaced += bool(sep.bands) and not sep.residual
        matches += int(Table(rows, author.columns).true(condition).sum())
    # The test is idle if the conditions are never TRUE or never yield a band.
    assert with_bands > 40
    assert matches > 1000
    assert replaced > 0


@pytest.mark.slow
@pytest.mark.parametrize("family", ["float64", "float32", "float and int"])
def test_a_float_band_keeps_the_row_that_just_matches(family):
    with_bands = just = 0
    for seed in range(500):
        author = Author(family, 10_000 + seed)
        rng = author.rng
        row = {c.params: some_value(c.type, rng) for c in author.columns}
        conjuncts = []
        for _ in range(rng.choice([1, 1, 2])):
            e = author.tight()
            (v,) = Table([row], author.columns)(e)
            op = rng.choice(["le", "ge", "lt", "gt", "eq"])
            at = float(v.values[0]) if v.valid is None or v.valid[0] else 1.0
            step = {"lt": math.inf, "gt": -math.inf}.get(op)
            if e.type.kind == "float":
                at = at if step is None else math.nextafter(at, step)
            elif step is not None:
                at += math.copysign(1, step)
            bound = b.literal(at, FLOAT64) if rng.random() < 0.8 else rng.choice(author.columns)
            conjuncts.append(b.compare(op, e, bound))
        condition = b.and_(*conjuncts)
        sep = separate(condition, infer=partial(inner_bounds, never_null=frozenset()))
        rows = some_rows(author.columns, rng, 60, around=row)
        broken = broken_promises(sep, rows, author.columns)
        assert not broken, report(broken, condition, seed)
        with_bands += bool(sep.bands)
        just += bool(sep.bands) and bool(Table([row], author.columns).true(condition)[0])
    assert with_bands > 150
    assert just > 100
