"""Two ways from raw rows to private ones, and what the estimators on top of them share.

====================  =====================================================================
method                what crosses the boundary
====================  =====================================================================
record, "moments"     a few noisy sums (`moments.class_gaussians`); rows are drawn from them
record, "local"       every row with Gaussian noise, every label by randomised response
====================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.core.arrays import Array, to_numpy
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnsupportedModeError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.response import RandomizedResponseMechanism
from sfumato.models.class_gaussians import GaussiansPlan, check_parts, release_gaussians
from sfumato.models.gaussians import CentredGaussians
from sfumato.models.hull_search import PARTITIONS, RowGroups, partition_rows, places_of
from sfumato.models.private import PrivateEstimator
from sfumato.privacy.guarantee import Guarantee, Relation
from sfumato.sums import Records
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube
from sfumato.sums.noisy_rows import release_rows
from sfumato.synthetic.smoothing import Stop, fabricate_groups
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_choice, check_count, check_n_components
from sfumato.tables.frames import is_out_of_core

Rows = NDArray[np.float64]
Codes = NDArray[np.intp]

METHODS = ("moments", "local")
DEFAULT_PASSES = 2
MAX_BRANCH = 6000  # its kernel matrix takes 288 MB
LABEL_SHARE = 0.5  # of epsilon, in the local method


@dataclass(frozen=True)
class BranchedRows:
    """Rows cut into branches, each of one class.

    rows (n_rows, n_features): Private rows.
    places: Which rows make each branch.
    classes: Class code of each branch.
    """

    rows: NDArray[np.float64]
    places: list[NDArray[np.intp]]
    classes: list[int]

    def groups(self, device: str | None) -> Sequence[Array]:
        """Return the rows of each branch, on an accelerator if one is named."""
        if device is None:
            return RowGroups(self.rows, self.places)
        torch = import_module("torch")
        return RowGroups(torch.as_tensor(self.rows, device=device), self.places)


class PrivateRowsEstimator(PrivateEstimator):
    """Base of `Fabricator` and `PrivateAffineHullClassifier`; not meant to be used by itself."""

    offered_methods: ClassVar[tuple[str, ...]] = METHODS
    max_branch: ClassVar[int] = MAX_BRANCH

    # Constructor arguments of both.
    hull_components: int
    method: str | None
    n_components: int
    gaussians_per_class: int | None
    scales_columns: ClassVar[bool] = False  # its rows are seen in the unit cube: `IntoUnitCube`

    branch_size: int | None
    partition: str | None
    n_smoothing: int | None
    device: str | None
    n_jobs: int | None
    verbose: bool
    random_state: Any

    guarantee_: Guarantee

    # Checks ---------------------------------------------------------------------------------

    def _validate_privacy_params(self) -> Bounds:
        bounds = super()._validate_privacy_params()
        check_choice("method", self._method, self.offered_methods)
        check_count("hull_components", self.hull_components)
        if self.partition is not None:
            check_choice("partition", self.partition, PARTITIONS)
        if self.branch_size is not None:
            check_count("branch_size", self.branch_size)
        if self.n_smoothing is not None and self.n_smoothing != 0:
            check_count("n_smoothing", self.n_smoothing)
        check_parts(self.gaussians_per_class)
        if self._method == "local" and self.relation != Relation.REPLACE_ONE:
            raise UnsupportedModeError(
                f"{type(self).__name__} publishes one row for each row here, so only relation "
                "'replace_one' is offered."
            )
        if self.device is not None:
            _require_device(self.device)
        return bounds

    @property
    def _draws_rows(self) -> bool:
        """Whether rows are drawn from released Gaussians, any number of them."""
        return self._method == "moments"

    @property
    def _method(self) -> str:
        """The method that is used."""
        return str(self.method)

    # Releases -------------------------------------------------------------------------------

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

    def _release_rows(
        self, scale: IntoUnitCube, records: Records, n_classes: int
    ) -> tuple[BranchedRows, NDArray[np.intp]]:
        """One private row for each row, cut into branches; and their private labels."""
        with_labels = n_classes > 1
        noise = LocalNoise(
            GaussianMechanism.calibrate(
                sensitivity=2.0,  # the diameter of the unit ball
                epsilon=self.epsilon * (1 - LABEL_SHARE * with_labels),
                delta=self.delta,
            ).for_size(int(records.public_rows or 0) * scale.n_features),
            RandomizedResponseMechanism.calibrate(
                n_labels=n_classes, epsilon=self.epsilon * LABEL_SHARE
            )
            if with_labels
            else None,
            scale,
        )
        receipt = self._charge(*noise.mechanisms())  # charge all, then draw
        noisy, codes = release_rows(records, noise, receipt, n_classes)
        self.guarantee_ = self._guarantee(receipt)
        size, partition = self.branch_size or self.max_branch, self.partition or "random"
        places, classes = cut_rows(noisy, codes, size, partition, self.random_state)
        return BranchedRows(noisy, places, classes), codes

    def _records_for_noise(
        self, rows_of: Callable[..., Any], X: Any, y: Any, groups: Any
    ) -> tuple[Records, Any]:
        """Return records, in memory or elsewhere, and the label set."""
        if is_out_of_core(X) and y is not None and self.row_bounds.labels is None:
            raise MissingBoundsError(
                "Records that are not in memory need their labels listed in the bounds."
            )
        records, labels = self._read(rows_of, X, y, groups)
        return records, labels

    # After the releases ---------------------------------------------------------------------

    def _fabricated(self, private: BranchedRows, n_passes: int | None) -> Sequence[Array]:
        """Smooth each branch by its own hull; note the passes in `n_smoothing_`."""
        stop = Stop(n_passes) if n_passes else None
        groups, self.n_smoothing_ = smoothed_branches(
            private,
            [stop] * len(private.places) if stop else None,
            n_components=self.hull_components,
            device=self.device,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        return groups

    @property
    def _passes(self) -> int | None:
        """The smoothing passes; None or 0 for no smoothing."""
        if self.n_smoothing is not None:
            return self.n_smoothing
        return None if self._draws_rows else DEFAULT_PASSES


def cut_rows(
    rows: NDArray[np.float64],
    codes: NDArray[np.intp],
    branch_size: int,
    partition: str,
    random_state: Any,
) -> tuple[list[NDArray[np.intp]], list[int]]:
    """Cut the rows of each class that has any into branches: their places and their class."""
    generator = check_random_state(random_state)
    places: list[NDArray[np.intp]] = []
    classes: list[int] = []
    for code in np.unique(codes):
        (members,) = np.nonzero(codes == code)
        numbers = partition_rows(
            rows[members],
            branch_size=branch_size,
            partition=partition,
            random_state=generator,
        )
        parts = [members[inside] for inside in places_of(numbers)]
        places += parts
        classes += [int(code)] * len(parts)
    return places, classes


def smoothed_branches(
    private: BranchedRows,
    stops: Sequence[Stop] | None,
    *,
    n_components: int,
    device: str | None,
    n_jobs: int | None,
    verbose: bool,
) -> tuple[Sequence[Array], NDArray[np.intp]]:
    """Smooth each branch by its own hull, or none; return rows and passes of each branch."""
    groups = private.groups(device)
    if stops is None:
        return groups, np.zeros(len(groups), dtype=np.intp)
    fabricated = fabricate_groups(
        groups, n_components=n_components, stops=stops, n_jobs=n_jobs, verbose=verbose
    )
    passes = np.array([each.n_passes for each in fabricated], dtype=np.intp)
    return [each.rows for each in fabricated], passes


def unpartition(private: BranchedRows, groups: Sequence[Any]) -> NDArray[np.float64]:
    """Put rows of branches back to the places of the rows that they stand for."""
    rows = np.empty(private.rows.shape)
    for place, group in zip(private.places, groups, strict=True):
        rows[place] = to_numpy(group)
    return rows


def _require_device(device: str) -> None:
    """Refuse a device that PyTorch does not have here, before anything is charged."""
    try:
        import_module("torch").empty(0, device=device)
    except (ImportError, RuntimeError, AssertionError, TypeError):
        raise InvalidInputError(
            f"'device' must be one that PyTorch has on this machine, or None. Got {device!r}."
        ) from None


# Noise on rows, each by itself -----------------------------------------------------------------


@dataclass(frozen=True)
class LocalNoise:
    """Gaussian noise on every row in the unit ball, randomised response on its label.

    gaussian: The noise on rows.
    response: The noise on labels; None where there are none.
    scale: How rows are scaled.
    """

    gaussian: GaussianMechanism
    response: RandomizedResponseMechanism | None
    scale: IntoUnitCube

    def mechanisms(self) -> list[Mechanism]:
        """Return what is drawn from."""
        return [self.gaussian, *([] if self.response is None else [self.response])]

    def released(self, rows: Rows, codes: Codes, ledger: Chargeable | None) -> tuple[Rows, Codes]:
        """Return rows and labels with noise, in units of the scale."""
        inner, width = self.scale.inner_bounds, self.scale.n_features
        noisy = self.gaussian.release(
            IntoUnitBall(inner, width)(self.scale.scaled(rows)), ledger=ledger
        )
        if self.response is not None:
            codes = self.response.release(codes, ledger=ledger)
        centre, radius = inner.ball(width)
        return centre + radius * noisy, codes
