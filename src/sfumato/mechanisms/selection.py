"""The random choices of a search: which settings a run tries, and how many runs count."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.entropy import random_words
from sfumato.privacy.events import SelectionEvent
from sfumato.privacy.renyi import run_tails


@dataclass(frozen=True)
class RunLaw:
    """Draws of a search, from the same bits as noise.

    event: The law of the number of runs.
    """

    event: SelectionEvent

    def number(self) -> int:
        """Draw the number of runs K, which stays secret."""
        # [V6] one uniform number and the distribution function of K; what is cut falls to the last
        return 1 + bisect_right(self._steps, int(random_words(1)[0]))

    @cached_property
    def _steps(self) -> list[int]:
        if self.event.max_runs is None:
            raise InvalidInputError("The number of runs must have a largest value: set 'max_runs'.")
        return [int((1 - tail) * 2**64) for tail in run_tails(self.event, self.event.max_runs)[:-1]]

    @staticmethod
    def choices(n_choices: int, count: int) -> NDArray[np.intp]:
        """Draw `count` independent uniform numbers below `n_choices`."""
        words = random_words(count)
        return np.asarray((words % np.uint64(n_choices)).astype(np.intp))
