"""How many examples a property runs with: a property states its weight, the profile states the count.

``IVJOIN_HYPOTHESIS`` names the profile: ``quick`` (the default), ``ci`` or ``soak``. The examples of ``quick`` and
``ci`` are the same in every run.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

SOAK = os.environ.get("IVJOIN_HYPOTHESIS") == "soak"


def examples(weight: float = 1, **more: Any) -> settings:
    """Return the settings of a property: weight 1 is 50 examples in ``quick``, 100 in ``ci``, 5,000 in ``soak``."""
    return settings(max_examples=max(1, round(weight * settings().max_examples)), **more)
