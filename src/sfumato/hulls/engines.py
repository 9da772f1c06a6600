"""Four ways from raw rows to private ones, and what the estimators on top of them share.

====================  =====================================================================
engine                what crosses the boundary
====================  =====================================================================
record, "moments"     a few noisy sums (`moments.record_engine`); rows are drawn from them
record, "local"       every row with Gaussian noise, every label by randomised response
entry                 every entry with entry noise, equations (74) to (77)
entry, mode "paper"   the same, but clusters and threshold are taken from the raw rows: refuted
====================  =====================================================================
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.accounting.receipt import Receipt, prepay
from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.events import NonPrivateEvent
from sfumato.exceptions import (
    InvalidInputError,
    RefutedGuaranteeWarning,
    UnsupportedModeError,
)
from sfumato.guarantee import Guarantee, Mode, Relation, Status, Unit
from sfumato.hulls.partition import PARTITIONS, RowGroups, partition_rows, places_of
from sfumato.hulls.public_rules import (
    LARGEST_BRANCH,
    BranchPlan,
    PublicScale,
    ScaledRows,
    plan_branches,
)
from sfumato.hulls.rows import check_choice, check_count
from sfumato.hulls.smoothing import MOST_PASSES, Stop, fabricate_groups, modelling_error
from sfumato.kernels.arrays import Array
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.entry import EntryMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.response import RandomizedResponseMechanism
from sfumato.moments.gaussians import CentredGaussians
from sfumato.moments.pca import check_n_components
from sfumato.moments.record_engine import GaussiansPlan, check_parts, release_gaussians
from sfumato.parallel import run_all
from sfumato.private import PrivateEstimator
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall

__all__ = ["ENGINES", "BranchedRows", "PrivateRowsEstimator"]

ENGINES = ("moments", "local")
USUAL_PASSES = 2
LABEL_SHARE = 0.5  # of epsilon, in the local engine


@dataclass(frozen=True)
class BranchedRows:
    """Rows cut into branches, each of one class.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Private rows.
    places : list of ndarray
        Which rows make each branch.
    classes : list of int
        Class code of each branch.
    thresholds : list of float, optional
        Where the smoothing of each branch stops; only in mode "paper".
    usual_passes : int
        Smoothing passes that the public rule gives for this noise.
    """

    rows: NDArray[np.float64]
    places: list[NDArray[np.intp]]
    classes: list[int]
    thresholds: list[float] | None = None
    usual_passes: int = USUAL_PASSES

    def groups(self, device: str | None) -> Sequence[Array]:
        """Give the rows of each branch, on an accelerator if one is named."""
        if device is None:
            return RowGroups(self.rows, self.places)
        torch = import_module("torch")
        return RowGroups(torch.as_tensor(self.rows, device=device), self.places)


class PrivateRowsEstimator(PrivateEstimator):
    """Base of `Fabricator` and `PrivateAffineHullClassifier`; not meant to be used by itself."""

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.ENTRY)
    offered_modes: ClassVar[tuple[Mode, ...]] = (Mode.STRICT, Mode.PAPER)
    largest_branch: ClassVar[int] = LARGEST_BRANCH

    # Constructor arguments of both.
    n_components: int
    engine: str
    pca_components: int
    gaussians_per_class: int | None
    branch_size: int | None
    partition: str | None
    n_smoothing: int | None
    smoothing_ratio: float | None
    entry_bound: float | None
    atom: bool
    device: str | None
    n_jobs: int | None
    verbose: bool
    random_state: Any

    guarantee_: Guarantee

    def __repr__(self, **options: Any) -> str:
        shown: str = super().__repr__(**options)
        return f"{shown}  # NO PRIVACY: mode 'paper'" if self.mode == Mode.PAPER else shown

    # Checks ---------------------------------------------------------------------------------

    def _check_promise(self) -> Bounds:
        bounds = super()._check_promise()
        check_choice("engine", self.engine, ENGINES)
        check_count("n_components", self.n_components)
        if self.partition is not None:
            check_choice("partition", self.partition, PARTITIONS)
        for name in ("branch_size", "n_smoothing"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_parts(self.gaussians_per_class)
        if self.smoothing_ratio is not None and not 0 < self.smoothing_ratio < 1:
            raise InvalidInputError(
                f"'smoothing_ratio' must lie in (0, 1), or be None. Got {self.smoothing_ratio}."
            )
        self._check_combination(bounds)
        if self.device is not None:
            _require_device(self.device)
        return bounds

    def _check_combination(self, bounds: Bounds) -> None:
        is_entry = self._is_entry
        name = type(self).__name__
        if self.mode == Mode.PAPER and not is_entry:
            raise UnsupportedModeError(f"{name} offers mode 'paper' for unit 'entry' only.")
        if is_entry and (bounds.norm is not None or bounds.lower is None):
            raise UnsupportedModeError(
                f"{name} with unit 'entry' needs a box, Bounds(lower=..., upper=...), and no norm: "
                "scaling a row back into a ball moves its other entries too."
            )
        one_by_one = is_entry or self.engine == "local"
        if one_by_one and self.relation != Relation.REPLACE_ONE:
            raise UnsupportedModeError(
                f"{name} publishes one row for each row here, so only relation 'replace_one' is "
                "offered."
            )

    def _check_labels(
        self, X: NDArray[np.float64], y: Any, bounds: Bounds
    ) -> tuple[NDArray[np.intp], NDArray[Any]]:
        if self._is_entry and bounds.labels is None:  # labels are public at entry level
            bounds = replace(bounds, labels=PUBLIC_LABELS)
        return super()._check_labels(X, y, bounds)

    @property
    def _is_entry(self) -> bool:
        return self.unit == Unit.ENTRY

    @property
    def _draws_rows(self) -> bool:
        """Whether rows are drawn from released Gaussians, any number of them."""
        return not self._is_entry and self.engine == "moments"

    # Releases -------------------------------------------------------------------------------

    def _release_gaussians(
        self, scale: PublicScale, rows: NDArray[Any], codes: NDArray[np.intp], n_classes: int
    ) -> CentredGaussians:
        """Record level: a few noisy sums."""
        into_ball = IntoUnitBall(scale.inner_bounds, rows.shape[1])
        scaled = ArrayRecords(rows, codes, relation=self.relation).mapped(ScaledRows(scale))
        records = scaled.mapped(into_ball)
        plan = GaussiansPlan.of(  # [F1] the budget divided
            records,
            epsilon=self.epsilon,
            delta=self.delta,
            n_classes=n_classes,
            n_components=check_n_components(self.pca_components, rows.shape[1]),
            gaussians_per_class=self.gaussians_per_class,
        )
        receipt = self._prepay(*plan.mechanisms())  # [F2] charge all, then draw
        released = release_gaussians(records, plan, receipt)  # [F3] the releases
        self.guarantee_ = self._guarantee(receipt)
        return released.in_units_of(scale.inner_bounds)

    def _release_rows(
        self, scale: PublicScale, rows: NDArray[Any], codes: NDArray[np.intp], n_classes: int
    ) -> tuple[BranchedRows, NDArray[np.intp]]:
        """One private row for each row, cut into branches; and their private or public labels."""
        if not self._is_entry:
            return self._release_locally(scale, rows, codes, n_classes)
        mechanism = EntryMechanism.calibrate(
            entry_bound=scale.entry_bound(self.entry_bound),
            epsilon=self.epsilon,
            delta=self.delta if self.atom else 0.0,
            rounding=scale.entry_rounding(self.entry_bound),
        )
        entries = scale.scaled_entries(rows)  # [F4] entries bounded, each by itself
        if self.mode == Mode.PAPER:
            return self._release_as_printed(scale, mechanism, entries, codes), codes
        mechanism.for_size(entries.size)
        receipt = self._prepay(mechanism)  # [F5] charge one entry, then draw
        units = scale.entry_units(self.entry_bound)
        noisy = mechanism.release(entries * units, ledger=receipt)  # [F6] the only release
        noisy /= units
        plan = self._plan(mechanism.variance() * float(np.mean(units**-2)), noisy.shape[1])
        self.guarantee_ = self._entry_guarantee(scale, mechanism)
        places, classes = self._cut(noisy, codes, plan)  # [F7] after the noise
        return BranchedRows(noisy, places, classes, usual_passes=plan.passes), codes

    def _release_locally(
        self, scale: PublicScale, rows: NDArray[Any], codes: NDArray[np.intp], n_classes: int
    ) -> tuple[BranchedRows, NDArray[np.intp]]:
        into_ball = IntoUnitBall(scale.inner_bounds, rows.shape[1])
        with_labels = n_classes > 1
        noise = GaussianMechanism.calibrate(
            sensitivity=2.0,  # the diameter of the unit ball
            epsilon=self.epsilon * (1 - LABEL_SHARE * with_labels),
            delta=self.delta,
        ).for_size(rows.size)
        mechanisms: list[Mechanism] = [noise]
        if with_labels:
            response = RandomizedResponseMechanism.calibrate(
                n_labels=n_classes, epsilon=self.epsilon * LABEL_SHARE
            )
            mechanisms.append(response)
        receipt = self._prepay(*mechanisms)  # [F8] charge both, then draw
        noisy = noise.release(into_ball(scale.scaled(rows)), ledger=receipt)
        codes = response.release(codes, ledger=receipt) if with_labels else codes
        centre, radius = scale.inner_bounds.ball(rows.shape[1])
        noisy = centre + radius * noisy
        plan = self._plan(math.inf, noisy.shape[1])
        self.guarantee_ = self._guarantee(receipt)
        return BranchedRows(noisy, *self._cut(noisy, codes, plan)), codes

    def _release_as_printed(
        self,
        scale: PublicScale,
        mechanism: EntryMechanism,
        entries: NDArray[np.float64],
        codes: NDArray[np.intp],
    ) -> BranchedRows:
        """Clusters and thresholds from the raw rows, as printed: no finite epsilon holds."""
        warnings.warn(
            "mode='paper' clusters the raw rows and stops by their error, as printed. That keeps "
            "no promise, whatever the noise: the guarantee says 'refuted'. Use mode='strict'.",
            RefutedGuaranteeWarning,
            stacklevel=4,
        )
        raw = BranchedRows(entries, *self._cut(entries, codes, self._plan(0.0, entries.shape[1])))
        thresholds = run_all(
            partial(modelling_error, n_components=self.n_components),
            raw.groups(self.device),
            n_jobs=self.n_jobs if self.device is None else 1,
        )
        # The second event has no finite epsilon, so that no budget pays for this.
        receipt: Receipt = prepay(
            self.ledger,
            mechanism.event(),
            NonPrivateEvent(),
            unit=self.unit,
            relation=self.relation,
        )
        units = scale.entry_units(self.entry_bound)
        noisy = mechanism.release(entries * units, ledger=receipt) / units
        self.guarantee_ = replace(
            self._entry_guarantee(scale, mechanism),
            epsilon=None,
            status=Status.REFUTED,
            claimed_epsilon=float(self.epsilon),
            record_reading=None,
            events=receipt.events,
        )
        return replace(raw, rows=noisy, thresholds=thresholds)

    def _entry_guarantee(self, scale: PublicScale, mechanism: EntryMechanism) -> Guarantee:
        public = (*self._public_facts(), "labels of the rows", "size of each class")
        return replace(
            mechanism.guarantee(n_entries=scale.n_features),
            whole_range=self.entry_bound is None,
            public=public,
        )

    # After the releases ---------------------------------------------------------------------

    def _plan(self, noise_variance: float, n_features: int) -> BranchPlan:
        public = plan_branches(noise_variance, n_features, largest=self.largest_branch)
        return BranchPlan(
            self.branch_size or public.branch_size,
            self.partition or public.partition,
            public.passes,
        )

    def _cut(
        self, rows: NDArray[np.float64], codes: NDArray[np.intp], plan: BranchPlan
    ) -> tuple[list[NDArray[np.intp]], list[int]]:
        """Cut the rows of each class that has any into branches."""
        generator = check_random_state(self.random_state)
        places: list[NDArray[np.intp]] = []
        classes: list[int] = []
        for code in np.unique(codes):
            (members,) = np.nonzero(codes == code)
            numbers = partition_rows(
                rows[members],
                branch_size=plan.branch_size,
                partition=plan.partition,
                random_state=generator,
            )
            parts = [members[inside] for inside in places_of(numbers)]
            places += parts
            classes += [int(code)] * len(parts)
        return places, classes

    def _fabricated(self, private: BranchedRows, n_passes: int | None) -> Sequence[Array]:
        """Smooth each branch by its own hull; note the passes in `n_smoothing_`."""
        groups = private.groups(self.device)
        if not n_passes:
            self.n_smoothing_ = np.zeros(len(groups), dtype=np.intp)
            return groups
        fabricated = fabricate_groups(
            groups,
            n_components=self.n_components,
            stops=self._stops(private, n_passes),
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self.n_smoothing_ = np.array([each.n_passes for each in fabricated], dtype=np.intp)
        return [each.rows for each in fabricated]

    def _passes(self, private: BranchedRows | None = None) -> int | None:
        """The most smoothing passes; None for no smoothing."""
        if self.n_smoothing is not None:
            return self.n_smoothing
        if self.mode == Mode.PAPER or self.smoothing_ratio is not None:
            return MOST_PASSES
        if self._draws_rows:
            return None
        return USUAL_PASSES if private is None else private.usual_passes

    def _stops(self, private: BranchedRows, n_passes: int) -> list[Stop]:
        thresholds: Sequence[float | None] = private.thresholds or [None] * len(private.places)
        return [Stop(n_passes, self.smoothing_ratio, threshold) for threshold in thresholds]


def _require_device(device: str) -> None:
    """Refuse a device that PyTorch does not have here, before anything is charged."""
    try:
        import_module("torch").empty(0, device=device)
    except (ImportError, RuntimeError, AssertionError, TypeError):
        raise InvalidInputError(
            f"'device' must be one that PyTorch has on this machine, or None. Got {device!r}."
        ) from None
