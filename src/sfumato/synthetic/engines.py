"""What rows and hulls drawn from private Gaussians share: the release of the Gaussians."""

from __future__ import annotations

from typing import Any, ClassVar

from sfumato.models.class_gaussians import GaussiansPlan, check_parts, release_gaussians
from sfumato.models.gaussians import CentredGaussians
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums import Records
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_n_components


class PrivateRowsEstimator(PrivateEstimator):
    """Base of `Fabricator` and `PrivateAffineHullClassifier`; not meant to be used by itself."""

    n_components: int
    gaussians_per_class: int | None
    random_state: Any
    guarantee_: Guarantee
    scales_columns: ClassVar[bool] = False  # its rows are seen in the unit cube: `IntoUnitCube`

    def _validate_privacy_params(self) -> Bounds:
        bounds = super()._validate_privacy_params()
        check_parts(self.gaussians_per_class)
        return bounds

    def _release_gaussians(
        self, scale: IntoUnitCube, given: Records, n_classes: int
    ) -> CentredGaussians:
        """Record level, or that of persons: a few noisy sums."""
        into_ball = IntoUnitBall(scale.inner_bounds, given.width)
        records = given.mapped(scale).mapped(into_ball)
        plan = GaussiansPlan.of(  # [F1] the budget divided
            records,
            epsilon=self.epsilon,
            delta=self.delta,
            n_classes=n_classes,
            n_components=check_n_components(self.n_components, given.width),
            gaussians_per_class=self.gaussians_per_class,
        )
        receipt = self._charge(*plan.mechanisms())  # [F2] charge all, then draw
        released = release_gaussians(records, plan, receipt)  # [F3] the releases
        self.guarantee_ = self._guarantee(receipt)
        return released.in_units_of(scale.inner_bounds)
