"""List the compiled kernels that an operator of a plan calls, so that another process can compile them early.

A kernel that is missing from the list is compiled at its first call. A kernel too many is compiled once for nothing.
"""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

from ivjoin.shj.arrow import byte_width
from ivjoin.shj.kernels import apart, compiling
from ivjoin.shj.plain import plain_type

if TYPE_CHECKING:
    from ivjoin.plan.planner import JoinPlan

__all__ = ["EVERY_PUSH", "compile_early", "kernels_of"]

# Called by every join but picks and aggregations, in this order. `push_batch` takes longest to compile.
EVERY_PUSH = ("spare_blocks._release", "push_kernels.push_batch")
_RESTORED = ("index_kernels.insert", "expiry_kernels.reschedule")
_INT_KEYS = ("key_kernels.regrow_ints", "key_kernels.rehash_ints", "key_kernels.take_back")
_WORD_KEYS = ("word_key_kernels.name_words", "word_key_kernels.intern_words")
_BYTE_KEYS = (
    "packed_key_kernels.name_packed", "key_kernels.intern_bytes", "key_kernels.regrow_bytes",
    "key_kernels.rehash_bytes", "key_kernels.take_back",
)  # fmt: skip
_TEXT = (
    "text_kernels.store_text", "text_kernels.build_mixed", "byte_kernels.gather_bytes", "byte_kernels.concat_pieces",
)  # fmt: skip
_SORTED = ("pick_kernels.radix_order",)
_PICKS = tuple(f"pick_kernels.{name}" for name in ("sweep", "group_rows", "thin", "walk", "merge_order")) + tuple(
    f"grouped_kernels.{name}" for name in ("group_values", "sort_groups", "meet_groups")
)


def compile_early(*plans: JoinPlan) -> Thread | None:
    """Compile in another process the kernels that operators will call and that are not in the cache on disk.

    Parameters
    ----------
    *plans : JoinPlan
        Plans of the operators. Without any, the kernels that every join calls are compiled.

    Returns
    -------
    Thread or None
        A thread that ends when the process does. None if every kernel is cached, as after the first joins of an
        installation. An operator waits for the process only if it needs one of the kernels that are not compiled yet.
    """
    names = [*EVERY_PUSH] if not plans else [name for plan in plans for name in kernels_of(plan)]
    return apart.begin(compiling.not_on_disk(dict.fromkeys(names)))


def kernels_of(plan: JoinPlan) -> list[str]:
    """Return the kernels' names (``"push_kernels.push_batch"``) in the order in which a stream of rows needs them."""
    if plan.spec.aggregates:
        return [*_SORTED, "grouped_kernels.place_rising"]
    keys = _keys_of(plan)
    if plan.spec.pick is not None:
        return [*keys, *_SORTED, *_PICKS]
    out = [*EVERY_PUSH, *keys]
    if any(byte_width(plain_type(t)) is None for side in plan.sides for t in side.schema.types):
        out += _TEXT
    if plan.separation.residual and not plan.decided:
        out.append("index_kernels.probe")
    return [*out, *_RESTORED]


def _keys_of(plan: JoinPlan) -> tuple[str, ...]:
    if plan.int_keys:
        return *_INT_KEYS, *(f"key_kernels.{name}" for name in ("intern_ints", "mark_ints", "number_ints"))
    if plan.word_keys:
        return *_INT_KEYS, *_WORD_KEYS
    return _BYTE_KEYS if plan.null_safe else ()
