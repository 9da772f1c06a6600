"""Noise on rows, each by itself: entries of a table, or whole rows and their labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import Chargeable
from sfumato.fabrication.public_rules import PublicScale
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.entry import EntryMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.response import RandomizedResponseMechanism
from sfumato.sums.maps import IntoUnitBall

__all__ = ["EntryNoise", "LocalNoise"]

Rows = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class EntryNoise:
    """Entry noise on every number, scaled to the unit cube; labels as they are.

    mechanism: The noise.
    scale: How entries are scaled.
    entry_bound: The change that is protected.
    """

    mechanism: EntryMechanism
    scale: PublicScale
    entry_bound: float | None

    def mechanisms(self) -> list[Mechanism]:
        """Give what is drawn from."""
        return [self.mechanism]

    def released(self, rows: Rows, codes: Codes, ledger: Chargeable | None) -> tuple[Rows, Codes]:
        """Give entries with noise, in units of the cube."""
        entries = self.scale.scaled_entries(rows)  # [F4] entries bounded, each by itself
        units = self.scale.entry_units(self.entry_bound)
        noisy = self.mechanism.release(entries * units, ledger=ledger)  # [F6] the only release
        noisy /= units
        return noisy, codes


@dataclass(frozen=True)
class LocalNoise:
    """Gaussian noise on every row in the unit ball, randomised response on its label.

    gaussian: The noise on rows.
    response: The noise on labels; None where there are none.
    scale: How rows are scaled.
    """

    gaussian: GaussianMechanism
    response: RandomizedResponseMechanism | None
    scale: PublicScale

    def mechanisms(self) -> list[Mechanism]:
        """Give what is drawn from."""
        return [self.gaussian, *([] if self.response is None else [self.response])]

    def released(self, rows: Rows, codes: Codes, ledger: Chargeable | None) -> tuple[Rows, Codes]:
        """Give rows and labels with noise, in units of the scale."""
        inner, width = self.scale.inner_bounds, self.scale.n_features
        noisy = self.gaussian.release(
            IntoUnitBall(inner, width)(self.scale.scaled(rows)), ledger=ledger
        )
        if self.response is not None:
            codes = self.response.release(codes, ledger=ledger)
        centre, radius = inner.ball(width)
        return centre + radius * noisy, codes
