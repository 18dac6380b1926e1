"""The policies in the model of the paper: one row a side and step."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ivjoin.arguments import one_of, whole_number
from ivjoin.errors import OptionError, came
from ivjoin.shedding.model import Keys, coded, memory_of
from ivjoin.shedding.policies import POLICIES, DecayedCounts, Policy, worth

__all__ = ["exact_matches", "replay"]


def exact_matches(left_keys: Keys, right_keys: Keys, *, window: int) -> int:
    """Return the matches of the whole join with unlimited memory."""
    left, right, _, window = coded(left_keys, right_keys, window)
    found = int(np.count_nonzero((left == right) & (left >= 0)))
    for own, other in ((left, right), (right, left)):
        for key in np.unique(own[own >= 0]):
            rows, meets = np.flatnonzero(own == key), np.flatnonzero(other == key)
            found += int((np.searchsorted(rows, meets) - np.searchsorted(rows, meets - window, "right")).sum())
    return found


_WIDTH = 1024


class _Store:
    """The stored rows of one side; each has a key and the step at which it arrived."""

    def __init__(self) -> None:
        self.keys = np.empty(16, dtype=np.int64)
        self.steps = np.empty(16, dtype=np.int64)
        self.ticket = np.empty(16, dtype=np.float64)
        self.n = 0
        self.of_key: defaultdict[int, int] = defaultdict(int)

    def add(self, key: int, step: int, ticket: float) -> None:
        if self.n == len(self.keys):
            for name in ("keys", "steps", "ticket"):
                setattr(self, name, np.resize(getattr(self, name), 2 * self.n))
        self.keys[self.n], self.steps[self.n], self.ticket[self.n] = key, step, ticket
        self.n += 1
        self.of_key[key] += 1

    def drop(self, i: int) -> None:
        """Drop a row; the others stay in the order of arrival."""
        self.of_key[int(self.keys[i])] -= 1
        for a in (self.keys, self.steps, self.ticket):
            a[i : self.n - 1] = a[i + 1 : self.n]
        self.n -= 1


def replay(
    left_keys: Keys, right_keys: Keys, *, window: int, memory: int, policy: Policy = "prob", shared: bool = False,
    seed: int = 0, half_life: float | None = None,
) -> int:
    """Return the matches that a policy of the operator finds. It decides at each step without knowing the future.

    Parameters
    ----------
    left_keys, right_keys, window, memory, shared
        As for :func:`optimal_offline`.
    policy : {"random", "prob", "life"}
        Which row is dropped. "random": any row. "prob": the row that is least likely to match. "life": the row with the
        least product of that likelihood and its remaining steps.
    seed : int
        Seed of the random choices.
    half_life : float, optional
        Steps after which a key counts half; by default eight windows.

    Returns
    -------
    int

    Raises
    ------
    OptionError
        For an invalid argument.

    Examples
    --------
    >>> replay([1, 1, 1, 3, 2], [2, 3, 1, 1, 3], window=3, memory=10, policy="prob")
    7
    """
    left, right, size, window = coded(left_keys, right_keys, window)
    one_of("policy", policy, POLICIES, OptionError)
    rooms = memory_of(memory, shared)
    rng = np.random.default_rng(whole_number("seed", seed, 0, 2**63 - 1))
    number = isinstance(half_life, (int, float)) and not isinstance(half_life, bool)
    if half_life is not None and not (number and half_life > 0):
        raise OptionError(f"half_life is {came(half_life)}; expected a number above 0, in steps")
    memory_of_counts = half_life if half_life is not None else 8 * window
    width = min(max(_WIDTH, 1 << (4 * size).bit_length()), 1 << 20)
    seen = DecayedCounts(width, memory_of_counts), DecayedCounts(width, memory_of_counts)
    stores = _Store(), _Store()

    matches = 0
    tickets = rng.random((len(left), 2))

    def value(s: int, step: int) -> np.ndarray:
        """Return the worth of each stored row of side s."""
        store = stores[s]
        tickets = store.ticket[: store.n]
        if policy == "random":
            return tickets
        life = store.steps[: store.n] + window - step - 1
        return worth(policy, tickets, seen[1 - s].of(store.keys[: store.n]), life)

    for step, pair in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        for s in (0, 1):
            store = stores[s]
            while store.n and store.steps[0] <= step - window:
                store.drop(0)
        matches += pair[0] == pair[1] >= 0
        for s in (0, 1):
            if pair[s] >= 0:
                matches += stores[1 - s].of_key[pair[s]]
        for s in (0, 1):
            if policy != "random":
                seen[s].see(np.array([pair[s]] if pair[s] >= 0 else [], dtype=np.int64), 1)
            if pair[s] >= 0:
                stores[s].add(pair[s], step, tickets[step, s])
        if isinstance(rooms, int):
            while stores[0].n + stores[1].n > rooms:
                values = value(0, step), value(1, step)
                low = [float(w.min()) if len(w) else np.inf for w in values]
                s = int(low[1] < low[0])
                stores[s].drop(int(values[s].argmin()))
            continue
        for s in (0, 1):
            while stores[s].n > rooms[s]:
                stores[s].drop(int(value(s, step).argmin()))

    return int(matches)
