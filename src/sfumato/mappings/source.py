"""The source's side of a transfer: releases, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.bounds import PUBLIC_LABELS, Bounds
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.guarantee import Guarantee, Mode, Relation, Unit
from sfumato.hulls.public_rules import PublicScale, ScaledRows
from sfumato.mappings.classifier import MembershipClassifier
from sfumato.mappings.gaussians import (
    SourceGaussians,
    coordinates_of,
    from_noisy_rows,
    from_released,
    log_joint,
)
from sfumato.mappings.many import seed_from
from sfumato.mechanisms.entry import EntryMechanism
from sfumato.memory import require_memory
from sfumato.moments.pca import check_n_components, top_eigenvectors
from sfumato.moments.record_engine import GaussiansPlan, release_gaussians
from sfumato.private import PrivateEstimator
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall

__all__ = ["PAPER_COMPONENTS", "TransferSource"]

Array = NDArray[np.float64]
PAPER_COMPONENTS, PAPER_LAYERS = 20, 5  # section 5 of the paper
DIRECTION_COPIES = 4  # of a covariance, while its eigenvectors are found


class TransferSource(PrivateEstimator):
    """Base of `PrivateTransferClassifier`: everything that reads the source's rows."""

    offered_units: ClassVar[tuple[Unit, ...]] = (Unit.RECORD, Unit.ENTRY)
    offered_modes: ClassVar[tuple[Mode, ...]] = (Mode.STRICT, Mode.PAPER)

    # Constructor arguments.
    pca_components: int
    entry_bound: float | None
    inducing_ratio: float
    kappa: float
    n_jobs: int | None
    verbose: bool
    random_state: Any

    source_: SourceGaussians
    source_guarantee_: Guarantee

    def _check_promise(self) -> Bounds:
        bounds = super()._check_promise()
        name = type(self).__name__
        is_entry = self.unit == Unit.ENTRY
        if self.mode == Mode.PAPER and not is_entry:
            raise UnsupportedModeError(f"{name} offers mode 'paper' for unit 'entry' only.")
        if is_entry and (bounds.norm is not None or bounds.lower is None):
            raise UnsupportedModeError(
                f"{name} with unit 'entry' needs a box, Bounds(lower=..., upper=...), and no norm: "
                "scaling a row back into a ball moves its other entries too."
            )
        if is_entry and self.relation != Relation.REPLACE_ONE:
            raise UnsupportedModeError(
                f"{name} with unit 'entry' publishes one row for each row, so only relation "
                "'replace_one' is offered."
            )
        return bounds

    def _check_labels(
        self, X: NDArray[np.float64], y: Any, bounds: Bounds
    ) -> tuple[NDArray[np.intp], NDArray[Any]]:
        if self.unit == Unit.ENTRY and bounds.labels is None:  # labels are public at entry level
            bounds = replace(bounds, labels=PUBLIC_LABELS)
        return super()._check_labels(X, y, bounds)

    def _check_source(
        self, source: ArrayLike, y_source: ArrayLike | None
    ) -> tuple[PublicScale, Array, NDArray[np.intp]]:
        """Check everything about the source, before anything is charged."""
        bounds = self._check_promise()
        rows = self._check_rows(source)
        codes, self.classes_ = self._check_labels(rows, y_source, bounds)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set holds one class; a classifier needs at least two."
            )
        self._warn_if_weak(len(rows))
        self.source_bounds_, self.source_mode_ = bounds, str(self.mode)
        self.n_source_features_ = rows.shape[1]
        return PublicScale(bounds, rows.shape[1]), rows, codes

    def _release_source(self, scale: PublicScale, rows: Array, codes: NDArray[np.intp]) -> None:
        if self.unit == Unit.ENTRY:
            self._release_entries(scale, rows, codes)
        else:
            self._release_sums(scale, rows, codes)
        self.guarantee_ = self.source_guarantee_

    def _release_sums(self, scale: PublicScale, rows: Array, codes: NDArray[np.intp]) -> None:
        """Record level: a few noisy sums, and one Gaussian a class from them."""
        into_ball = IntoUnitBall(scale.inner_bounds, rows.shape[1])
        scaled = ArrayRecords(rows, codes, relation=self.relation).mapped(ScaledRows(scale))
        records = scaled.mapped(into_ball)
        plan = GaussiansPlan.of(  # [T1] the budget divided
            records,
            epsilon=self.epsilon,
            delta=self.delta,
            n_classes=len(self.classes_),
            n_components=check_n_components(self.pca_components, rows.shape[1]),
            gaussians_per_class=1,
        )
        receipt = self._prepay(*plan.mechanisms())  # [T2] charge all, then draw
        released = release_gaussians(records, plan, receipt)  # [T3] the releases
        released = released.in_units_of(scale.inner_bounds)
        self.source_ = from_released(released)  # [T4] post-processing from here on
        self.source_guarantee_ = self._guarantee(receipt)

    def _release_entries(self, scale: PublicScale, rows: Array, codes: NDArray[np.intp]) -> None:
        """Entry level: every entry with noise (77), and what follows from the noisy rows."""
        is_paper = self.mode == Mode.PAPER
        mechanism = EntryMechanism.calibrate(
            entry_bound=scale.entry_bound(self.entry_bound),
            epsilon=self.epsilon,
            delta=self.delta if is_paper else 0.0,  # the atom of equation (75)
            rounding=scale.entry_rounding(self.entry_bound),
        )
        entries = scale.scaled_entries(rows)  # [T5] entries bounded, each by itself
        mechanism.for_size(entries.size)
        require_memory(DIRECTION_COPIES * float(rows.shape[1]) ** 2, "The subspace of the source")
        receipt = self._prepay(mechanism)  # [T6] charge one entry, then draw
        units = scale.entry_units(self.entry_bound)
        noisy = mechanism.release(entries * units, ledger=receipt) / units  # [T7] the only release
        if is_paper:  # [T8] post-processing from here on
            self._fit_as_printed(noisy, codes)
        else:
            kept = check_n_components(self.pca_components, rows.shape[1])
            self.source_ = from_noisy_rows(
                noisy, codes, len(self.classes_), kept, mechanism.variance() / units**2
            )
        public = (*self._public_facts(), "labels of the rows", "size of each class")
        self.source_guarantee_ = replace(
            mechanism.guarantee(n_entries=rows.shape[1]),
            whole_range=self.entry_bound is None,
            public=public,
        )

    def _fit_as_printed(self, noisy: Array, codes: NDArray[np.intp]) -> None:
        """Algorithm 6 and the subspace matrix, both from the noisy rows."""
        self.source_classifier_ = MembershipClassifier(
            min(PAPER_COMPONENTS, noisy.shape[1]),
            n_layers=PAPER_LAYERS,
            random_state=seed_from(self.random_state),
            **self._autoencoders(),
        ).fit(noisy, codes)
        away = noisy - noisy.mean(axis=0)
        n_kept = -(-noisy.shape[1] // 2)
        self.source_directions_ = top_eigenvectors(away.T @ away, n_kept)[1].T

    def _autoencoders(self) -> dict[str, Any]:
        """Parameters of all autoencoders; the printed ones are not centred."""
        return {
            "inducing_ratio": self.inducing_ratio,
            "kappa": self.kappa,
            "center": self.mode != Mode.PAPER,
            "dtype": "float32",
            "n_jobs": self.n_jobs,
            "verbose": self.verbose,
        }

    def _source_rows(self, rows: Array) -> Array:
        """Clip and scale rows of the source's space by the public bounds."""
        return PublicScale(self.source_bounds_, self.n_source_features_).scaled(rows)

    def _source_scores(self, rows: Array) -> Array:
        """Log-scores of rows of the source's space under the released Gaussians."""
        return log_joint(self.source_, coordinates_of(self.source_, self._source_rows(rows)))
