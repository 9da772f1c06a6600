"""Laplace noise: for vectors, and for each number of a table (the papers' entry noise)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import (
    ROUNDED_UP,
    AdditiveMechanism,
    grid_of,
    noise_status,
    require_epsilon,
    require_sensitivity,
)
from sfumato.mechanisms.sampling import LAPLACE, Law, discrete_laplace, require_scale, rounded_noise
from sfumato.privacy.composition import record_level_guarantee
from sfumato.privacy.events import EntryEvent, Event, LaplaceEvent, NonPrivateEvent, PureEvent
from sfumato.privacy.guarantee import Guarantee, Relation, Unit

MAX_TILT = 300.0  # half of epsilon over the sensitivity; beyond it noise is 0 but for e**-600


@dataclass(frozen=True)
class LaplaceMechanism(AdditiveMechanism):
    """``v + Lap(D / epsilon)`` on each coordinate: epsilon-DP for L1 sensitivity D.

    Parameters
    ----------
    sensitivity : float
        D, the largest ``||v - v'||₁`` over neighbours.
    epsilon : float
        The budget; infinity means no noise (and an event that says so).
    touched : int, optional
        How many coordinates two neighbours can differ in; all of them by default. Only these
        are moved apart by the rounding to the grid.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : the statistic with independent Laplace noise, rounded to a public grid.
    Sensitivity : D, enlarged by the step of the grid for every coordinate that can differ.
    Guarantee : pure epsilon.
    Assumptions and numerics : the rounding of exact real noise is drawn; OS entropy.

    Examples
    --------
    >>> from sfumato.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(sensitivity=1.0, epsilon=0.5).variance()
    8.0
    """

    sensitivity: float
    epsilon: float
    touched: int | None = None
    norm: ClassVar[int | str] = 1
    law: ClassVar[Law] = LAPLACE

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        require_epsilon(self.epsilon)
        if self.touched is not None and self.touched < 1:
            raise InvalidInputError(f"'touched' must be at least 1. Got {self.touched} instead.")

    def event(self) -> Event:
        """Describe one release without data."""
        return NonPrivateEvent() if math.isinf(self.epsilon) else LaplaceEvent(self.epsilon)

    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        return 2 * (self.sensitivity / self.epsilon) ** 2

    def grid(self, size: int) -> tuple[float, float] | None:
        """Return the step of the grid and the scale of the noise."""
        touched = size if self.touched is None else min(self.touched, size)
        is_exact = math.isinf(self.epsilon)
        return None if is_exact else grid_of(self.sensitivity, touched, over=self.epsilon)


@dataclass(frozen=True)
class DiscreteLaplaceMechanism(LaplaceMechanism):
    """``v + k`` for whole numbers v, ``P(k) ∝ exp(-epsilon |k| / D)`` for each coordinate.

    Among all releases of a count it is the best for every symmetric loss (Ghosh et al. 2009).

    Parameters
    ----------
    sensitivity : float
        D, the largest ``||v - v'||₁`` over neighbours, both of whole numbers.
    epsilon : float
        The budget; infinity means no noise (and an event that says so).

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : whole numbers with independent noise.
    Sensitivity : D; what is not whole is rounded first.
    Guarantee : pure epsilon.
    Assumptions and numerics : the exact discrete law is drawn; OS entropy. Proof:
        docs/guarantees/statistics.md.
    """

    def event(self) -> Event:
        """Describe one release without data."""
        is_exact = math.isinf(self.epsilon)
        return NonPrivateEvent() if is_exact else PureEvent(self.epsilon, law="discrete Laplace")

    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        half = self.epsilon / self.sensitivity / 2
        return 0.0 if half > MAX_TILT else 1 / (2 * math.sinh(half) ** 2)

    def grid(self, size: int) -> tuple[float, float] | None:  # noqa: ARG002 - whole already
        """Return the step, 1, and the scale of the noise."""
        if math.isinf(self.epsilon):
            return None
        scale = max(self.sensitivity * ROUNDED_UP / self.epsilon, 0.5 / MAX_TILT)
        require_scale(scale)
        return 1.0, scale

    def _noise(self, cells: float, size: int) -> NDArray[np.float64]:
        return rounded_noise(discrete_laplace(cells), cells, size)


@dataclass(frozen=True)
class EntryMechanism(AdditiveMechanism):
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
    >>> mechanism = EntryMechanism(entry_bound=1.0, epsilon=0.1)
    >>> mechanism.guarantee(n_entries=784).record_reading.pure_epsilon
    78.4
    """

    entry_bound: float
    epsilon: float
    delta: float = 0.0
    rounding: float = 0.0
    unit: ClassVar[Unit] = Unit.ENTRY
    relation: ClassVar[Relation] = Relation.REPLACE_ONE
    law: ClassVar[Law] = LAPLACE

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
        self.grid(1)  # noise that cannot be drawn is refused before a charge

    def event(self) -> Event:
        """Describe the release of one entry without data."""
        if math.isinf(self.epsilon):
            return NonPrivateEvent()
        return EntryEvent(self.epsilon, self.delta, self.entry_bound)

    def variance(self) -> float:
        """Variance of the noise on one entry."""
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
        event, reading = self.event(), None
        if isinstance(event, EntryEvent):
            reading = record_level_guarantee(event, n_entries, delta=delta)
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=Unit.ENTRY,
            relation=Relation.REPLACE_ONE,
            status=noise_status(),
            entry_bound=self.entry_bound,
            record_reading=reading,
            public=("the number of rows", "the labels", "the entry bound"),
            events=(event,),
        )

    def grid(self, size: int) -> tuple[float, float] | None:  # noqa: ARG002
        """Return the step of the grid and the scale of the noise."""
        if math.isinf(self.epsilon):
            return None
        return grid_of(self.entry_bound, 1.0, over=self.epsilon, more=self.rounding)
