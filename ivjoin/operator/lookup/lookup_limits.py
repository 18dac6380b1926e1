"""Limit the memory of an operator that looks up left rows: refuse a batch, or spill columns."""

from __future__ import annotations

from weakref import ref

from ivjoin.errors import MemoryLimitError
from ivjoin.operator.lookup.lookup_state import LookupState
from ivjoin.operator.memory.budget import GOES_ON, Budget
from ivjoin.operator.memory.trimming import Trimming
from ivjoin.plan.spec import SIDES
from ivjoin.shj.store.disk.backing import Files
from ivjoin.shj.store.disk.process_memory import give_back

__all__ = ["LookupLimits"]

_PAGES = 8 << 20  # bytes of file pages that may stay in memory on top of the limit
_FULL = 8  # a spill leaves 1 / _FULL of the limit free


class LookupLimits:
    """The memory limit of one running lookup."""

    def __init__(self, engine: LookupState, budget: Budget) -> None:
        self.budget = budget
        self._engine = ref(engine)
        self._trimming = Trimming(budget)
        engine.account.limit, engine.account.on_full = budget.limit, self._on_full

    def stepped(self) -> None:
        engine = self._engine()
        if engine is None:
            return
        # Return small freed arrays to the system before they add up to the size of the state.
        self._trimming.stepped(engine.bytes_held())
        if engine.account.files is not None:
            engine.account.files.release_pages(_PAGES)

    def stay_within(self) -> None:
        engine = self._engine()
        if engine is not None:
            engine.account.want(0 if engine.account.fits_now() else 1)

    def fit(self) -> None:
        engine = self._engine()
        if engine is not None:
            engine.account.ask(0 if engine.account.fits_now() else 1)

    def _on_full(self, needed: int, held: int) -> bool:
        engine = self._engine()
        assert engine is not None
        limit = engine.account.limit
        assert limit is not None
        spills, most = self.budget.when_full == "spill", limit - limit // _FULL - needed
        engine.make_room(not spills)
        if spills and engine.bytes_held() > most:
            give_back()
            engine.spill(self._files(engine), most)
            give_back()
            if engine.bytes_held() >= held:
                engine.make_room(True)
        if engine.bytes_held() < held:
            return True
        raise self.limit_error(engine, needed, held)

    def _files(self, engine: LookupState) -> Files:
        if engine.account.files is None:
            engine.account.files = Files(self.budget.folder)
            engine.account.files.allowed = _PAGES
        return engine.account.files

    def limit_error(self, engine: LookupState, needed: int, held: int) -> MemoryLimitError:
        from ivjoin.operator.explaining.explain import kept_lines

        spills = self.budget.when_full == "spill"
        ways = ["a greater memory_limit"]
        if not spills:
            ways.append("when_full='spill' (files, exact)")
        ways += ["smaller batches", "a narrower band, or orders and bounds that evict rows"]
        stored = len(engine.left), len(engine.right)
        sides = "; ".join(
            f"the {name} side stores {rows:,} rows{said} in {size:,} bytes"
            for name, rows, size, said in zip(
                SIDES, stored, engine.bytes_of_sides(), (" that wait for their matches", ""), strict=True
            )
        )
        why = " All columns are in files: the index of the rows remains in memory." if spills else ""
        kept = ". ".join(line.strip() for line in kept_lines(engine.plan, engine.frontiers))
        return MemoryLimitError(
            f"memory_limit of {self.budget.limit:,} bytes: {held:,} are in use and {needed:,} more are needed. "
            f"{sides[0].upper()}{sides[1:]}.{why} What evicts rows: {kept}. Fixes: {'; '.join(ways)}", GOES_ON
        )
