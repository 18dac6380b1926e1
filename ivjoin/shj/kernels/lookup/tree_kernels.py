"""Find the least value of a range, and add the doubles of a range, by a tree of blocks.

A tree of n values has the leaves n to 2 n - 1. Each other node i joins the nodes 2 i and 2 i + 1 (Bentley 1977).
"""

from __future__ import annotations

import numpy as np

from ivjoin.shj.kernels.compiling import IN1, IN1_F8, IO1, IO1_F8, VOID, compiled, inner

__all__ = ["grow_least", "grow_sums", "least_within", "sums_within"]


@inner
def _place(tree, node):
    n = tree.shape[0]
    return node - n if node >= n else tree[node]


@compiled(VOID(IN1, IO1))
def grow_least(values, tree):
    """Write to each inner node of a tree : int64[n] the place of the least of its values : int64[n]."""
    n = tree.shape[0]
    for k in range(1, n):
        node = n - k
        a, b = _place(tree, 2 * node), _place(tree, 2 * node + 1)
        tree[node] = a if values[a] <= values[b] else b


@compiled(VOID(IN1, IN1, IN1, IN1, IO1))
def least_within(values, tree, lo, hi, out):
    """Write the place of a least value from ``lo[i]`` to ``hi[i]`` to out : int64[m]; -1 for an empty range."""
    n = tree.shape[0]
    for i in range(lo.shape[0]):
        a, b = lo[i] + n, hi[i] + n
        best = np.int64(-1)
        while a < b:
            if a & 1:
                at = _place(tree, a)
                best = at if best < 0 or values[at] < values[best] else best
                a += 1
            if b & 1:
                b -= 1
                at = _place(tree, b)
                best = at if best < 0 or values[at] < values[best] else best
            a >>= 1
            b >>= 1
        out[i] = best


@compiled(VOID(IO1_F8))
def grow_sums(tree):
    """Write the inner nodes of a tree of sums : float64[2 n] whose leaves are written."""
    n = tree.shape[0] >> 1
    for k in range(1, n):
        tree[n - k] = tree[2 * (n - k)] + tree[2 * (n - k) + 1]


@compiled(VOID(IN1_F8, IN1, IN1, IO1_F8))
def sums_within(tree, lo, hi, out):
    """Write the sum of the leaves from ``lo[i]`` to ``hi[i]`` to out : float64[m]; 0 for an empty range."""
    n = tree.shape[0] >> 1
    for i in range(lo.shape[0]):
        a, b = lo[i] + n, hi[i] + n
        first = last = 0.0
        while a < b:
            if a & 1:
                first += tree[a]
                a += 1
            if b & 1:
                b -= 1
                last = tree[b] + last
            a >>= 1
            b >>= 1
        out[i] = first + last
