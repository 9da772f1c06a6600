"""What the source releases: a few noisy sums; and its public scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.base import Mechanism
from sfumato.models.class_gaussians import GaussiansPlan, release_gaussians
from sfumato.models.transfer.gaussians import SourceGaussians, from_released
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_n_components

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class PlannedSource:
    """What a source would release: checked and divided, nothing charged.

    payer (PrivateTransferClassifier): With the budget and the ledger of the source.
    mechanisms: All that it releases.
    draw: Gives the Gaussians and the guarantee for a receipt.
    """

    payer: Any
    mechanisms: tuple[Mechanism, ...]
    draw: Callable[[Receipt], tuple[SourceGaussians, Guarantee]]


def planned_sums(payer: Any, scale: IntoUnitCube, rows: Array, codes: Codes) -> PlannedSource:
    """A few noisy sums, and one Gaussian per class from them."""
    into_ball = IntoUnitBall(scale.inner_bounds, rows.shape[1])
    scaled = ArrayRecords(rows, codes, relation=payer.relation).mapped(scale)
    records = scaled.mapped(into_ball)
    plan = GaussiansPlan.of(  # [T1] the budget divided
        records,
        epsilon=payer.epsilon,
        delta=payer.delta,
        n_classes=len(payer.classes_),
        n_components=check_n_components(payer.n_components, rows.shape[1]),
        gaussians_per_class=1,
    )

    def draw(receipt: Receipt) -> tuple[SourceGaussians, Guarantee]:
        released = release_gaussians(records, plan, receipt)  # [T3] the releases
        released = released.in_units_of(scale.inner_bounds)
        return from_released(released), payer._guarantee(receipt)  # [T4] post-processing

    return PlannedSource(payer, tuple(plan.mechanisms()), draw)


def source_reach(source: SourceGaussians, bounds: Bounds, n_features: int) -> float:
    """Public bound on the distance of a scaled row from the released centre."""
    centre, radius = IntoUnitCube(bounds, n_features).inner_bounds.ball(n_features)
    return (radius + float(np.linalg.norm(centre - source["centre"]))) * (1 + 2.0**-20)
