"""The papers' entry noise: an atom at zero beside Laplace noise, on every number of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    add_on_grid,
    as_statistic,
    check_memory,
    enlarged,
    grid_step,
    noise_status,
    require_epsilon,
    to_grid,
)
from sfumato.mechanisms.sampling import LAPLACE, bernoulli, require_scale, rounded_noise
from sfumato.privacy.entry import record_level_guarantee
from sfumato.privacy.events import EntryEvent, Event, NonPrivateEvent
from sfumato.privacy.guarantee import Guarantee, Relation, Unit


@dataclass(frozen=True)
class EntryMechanism(Mechanism):
    """``y + w``, w = 0 with probability delta and Laplace(d / epsilon) else, for each entry y.

    Parameters
    ----------
    entry_bound : float
        The largest change d of one entry that is protected.
    epsilon : float
        The budget of one entry.
    delta : float, default=0.0
        Mass of the atom: the chance that an entry is published as it is. Best left at 0; it
        lowers the mean noise only by the factor ``1 - delta``.
    rounding : float, default=0.0
        Public bound on how much more two entries may differ because they were rounded before.

    Privacy
    -------
    Unit and relation : entry: one number of one record, replaced by one at most d away.
    Released : every entry with independent noise, rounded to a public grid.
    Sensitivity : d, enlarged by one step of the grid and by `rounding`.
    Guarantee : (epsilon, delta) per *entry*, tight. For a whole record of p entries read
        `guarantee`, which states the figure as well: it is far larger.
    Assumptions and numerics : labels and the number of rows are not protected; the rounding of
        exact real noise is drawn; OS entropy.

    Examples
    --------
    >>> from sfumato.mechanisms import EntryMechanism
    >>> mechanism = EntryMechanism.calibrate(entry_bound=1.0, epsilon=0.1)
    >>> mechanism.guarantee(n_entries=784).record_reading.pure_epsilon
    78.4
    """

    entry_bound: float
    epsilon: float
    delta: float = 0.0
    rounding: float = 0.0
    unit: ClassVar[Unit] = Unit.ENTRY
    relation: ClassVar[Relation] = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        if not (math.isfinite(self.entry_bound) and self.entry_bound > 0):
            raise InvalidInputError(
                f"'entry_bound' must be finite and positive. Got {self.entry_bound} instead."
            )
        require_epsilon(self.epsilon)
        if not 0 <= self.delta < 1:
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {self.delta} instead.")
        if not (math.isfinite(self.rounding) and self.rounding >= 0):
            raise InvalidInputError(
                f"'rounding' must be finite and >= 0. Got {self.rounding} instead."
            )
        if math.isfinite(self.epsilon):  # noise that cannot be drawn is refused before a charge
            step, scale = self._grid()
            require_scale(scale / step)

    @classmethod
    def calibrate(
        cls, *, entry_bound: float, epsilon: float, delta: float = 0.0, rounding: float = 0.0
    ) -> EntryMechanism:
        """Return the noise that keeps ``(epsilon, delta)`` for one entry.

        Parameters
        ----------
        entry_bound : float
            Largest protected change of one entry.
        epsilon : float
            The epsilon of the budget.
        delta : float, default=0
            Probability that an entry is published exactly.
        rounding : float, default=0.0
            See the class.
        """
        return cls(float(entry_bound), require_epsilon(epsilon), delta, rounding)

    def event(self) -> Event:
        """Describe the release of one entry without data.

        Returns: What a ledger writes down.
        """
        if math.isinf(self.epsilon):
            return NonPrivateEvent()
        return EntryEvent(self.epsilon, self.delta, self.entry_bound)

    def variance(self) -> float:
        """Variance of the noise on one entry (before the enlargement for the grid)."""
        scale = self.entry_bound / self.epsilon
        return 2 * (1 - self.delta) * scale * scale  # infinite where a power would raise

    def guarantee(self, *, n_entries: int, delta: float = 1e-5) -> Guarantee:
        """State the promise for one entry, and what it means for a record of `n_entries`.

        Parameters
        ----------
        n_entries : int
            Numbers of a record that get this noise.
        delta : float, default=1e-5
            The delta at which the record's epsilon is stated.

        Returns
        -------
        Guarantee
            The promise for one entry, with the reading for a record.
        """
        event = self.event()
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=Unit.ENTRY,
            relation=Relation.REPLACE_ONE,
            status=noise_status(),
            entry_bound=self.entry_bound,
            record_reading=(
                record_level_guarantee(event, n_entries, delta=delta)
                if isinstance(event, EntryEvent)
                else None
            ),
            public=("the number of rows", "the labels", "the entry bound"),
            events=(event,),
        )

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.float64]:
        """Charge the ledger once, the cost of one entry, then add noise to every entry.

        Parameters
        ----------
        value : array-like
            The entries.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray
            The noisy entries, in the shape of `value`.
        """
        table = as_statistic(value)
        self._charge(ledger, table.size)
        if math.isinf(self.epsilon):
            return table
        step, scale = self._grid()
        noise = rounded_noise(LAPLACE, scale / step, table.size)
        if self.delta:
            noise[bernoulli(lambda exact: exact.mpf(self.delta), table.size)] = 0.0
        return add_on_grid(to_grid(table, step), noise.reshape(table.shape), step)

    def for_size(self, size: int) -> Self:
        """Return this mechanism, or refuse by public numbers what memory cannot hold.

        Parameters
        ----------
        size : int
            Number of entries.

        Returns
        -------
        EntryMechanism
            The mechanism itself, for a check before the charge.
        """
        check_memory(size)
        return self

    def _grid(self) -> tuple[float, float]:
        """Step of the grid, and the scale of the noise with the rounding paid for."""
        step = grid_step(self.entry_bound / self.epsilon, sensitivity=self.entry_bound, spread=1.0)
        bound = enlarged(self.entry_bound + self.rounding, step=step, spread=1.0)
        return step, bound / self.epsilon
