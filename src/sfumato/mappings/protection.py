"""A release of the target's own, for `protect_target=True`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.guarantee import Guarantee, Unit
from sfumato.hulls.public_rules import PublicScale
from sfumato.mappings.gaussians import SourceGaussians, from_released
from sfumato.moments.pca import check_n_components
from sfumato.moments.record_engine import RecordReleases

__all__ = ["release_target"]


def release_target(
    estimator: Any, rows: NDArray[np.float64], codes: NDArray[np.intp]
) -> tuple[SourceGaussians, Guarantee]:
    """Release one Gaussian a class of the target, on its own budget.

    Parameters
    ----------
    estimator : PrivateTransferClassifier
        Its source is released already, hence public here.
    rows : ndarray
        Target rows, clipped and scaled.
    codes : ndarray
        A label for each row that depends on that row, its own label and public values only:
        replacing one record changes one row and one code.
    """
    payer = copy.copy(estimator)
    payer.unit, payer.ledger = Unit.RECORD, estimator.target_ledger
    payer.epsilon = estimator.epsilon if (own := estimator.target_epsilon) is None else own
    payer.delta = estimator.delta if (own := estimator.target_delta) is None else own
    payer._warn_if_weak(len(rows))
    releases = RecordReleases.plan(  # [T9] the target's budget divided
        epsilon=payer.epsilon,
        delta=payer.delta,
        relation=payer.relation,
        shape=rows.shape,
        n_classes=len(payer.classes_),
        n_components=check_n_components(payer.pca_components, rows.shape[1]),
        gaussians_per_class=1,
    )
    receipt = payer._prepay(*releases.all())  # [T10] charge all, then draw
    released = releases.run(
        rows,
        codes,
        len(payer.classes_),
        bounds=PublicScale(payer.source_bounds_, rows.shape[1]).inner_bounds,
        ledger=receipt,
    )
    return from_released(released), payer._guarantee(receipt)
