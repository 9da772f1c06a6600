"""Transfer at entry level, mended: Gaussians of noisy rows instead of their autoencoders.

The source releases every entry with noise; the target is classified as by
`sfumato.PrivateTransferClassifier`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.memory import require_memory
from sfumato.exceptions import InvalidInputError
from sfumato.models.gaussians import (
    CentredGaussians,
    gaussians_from_moments,
    top_eigenvectors,
)
from sfumato.models.transfer import Gaussians, Planned, PrivateTransferClassifier, from_released
from sfumato.papers.entry_level import EntryEstimator
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import check_n_components

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
DIRECTION_COPIES = 4  # of a covariance, while its eigenvectors are found


class EntryTransfer(EntryEstimator, PrivateTransferClassifier):
    """Classify a target with few labels, helped by a source that protects single numbers.

    Parameters
    ----------
    schedule, n_layers, inducing_ratio, kappa, n_components, target_components, cross_fit, \
use_source, n_jobs, verbose, random_state
        See `sfumato.PrivateTransferClassifier`.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of one entry of the source; the noise needs no delta.
    bounds : Bounds
        A public box of the source's rows, and the label set; required.
    entry_bound : float, optional
        The largest protected change d of one entry; by default any change inside the box.
    ledger : DatasetBudget, optional
        Who pays for the source.

    Attributes
    ----------
    source_ : dict
        Gaussians of the source, from its noisy rows.
    source_guarantee_ : Guarantee
        The promise for one number of one row of the source.
    guarantee_ : Guarantee
        The same; with a target on condition that the record is one of the source.

    Privacy
    -------
    Unit and relation : one entry of the source, replaced by one at most d away; its labels, class
        sizes and number of rows are public. Target rows and labels are not protected.
    Released : every entry with noise. All else follows from these.
    Sensitivity : d.
    Guarantee : (epsilon, 0) for an entry; the figure for a whole record is stated next to it.
    Assumptions and numerics : bounds are public; noise is float-safe.
        Proof: docs/guarantees/transfer.md.
    """

    protect_target = False
    target_epsilon = target_delta = target_ledger = None

    def __init__(
        self,
        *,
        schedule: tuple[int, ...] = (5, 10, 15, 20),
        n_layers: int = 1,
        inducing_ratio: float = 0.5,
        kappa: float = 0.1,
        n_components: int = 50,
        target_components: int = 40,
        cross_fit: bool = True,
        use_source: bool = True,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Bounds | None = None,
        entry_bound: float | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.schedule = schedule
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.kappa = kappa
        self.n_components = n_components
        self.target_components = target_components
        self.cross_fit = cross_fit
        self.use_source = use_source
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.entry_bound = entry_bound
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def plan_source(self, source: Any, y_source: Any) -> Planned:
        """Check the source, every entry of which gets noise; nothing is charged."""
        scale, entries, codes, labels, budget = self._read_entries(source, y_source)
        if labels is None or len(labels) < 2:
            raise InvalidInputError("The label set has only one class; a classifier needs two.")
        self.classes_ = labels
        self.source_bounds_, self.n_source_features_ = self.row_bounds, entries.shape[1]
        mechanism = self._noise(scale, entries)
        n_features = entries.shape[1]
        require_memory(DIRECTION_COPIES * float(n_features) ** 2, "The subspace of the source")

        def draw() -> tuple[Gaussians, Guarantee]:
            assert budget.receipt is not None  # noqa: S101 - charged before anything is drawn
            noisy, promise = self._release_entries(scale, entries, mechanism, budget.receipt)
            kept = check_n_components(self.n_components, n_features)
            variance = mechanism.variance() / scale.units**2
            return from_noisy_rows(noisy, codes, len(labels), kept, variance), promise

        return budget, (mechanism.event(),), draw


def from_noisy_rows(
    rows: Array, codes: Codes, n_classes: int, n_components: int, noise_variance: Array
) -> Gaussians:
    """Return Gaussians of rows whose entries carry independent noise of a known variance a column.

    Directions are the principal ones that stand out of the noise, and those of the class means.
    The noise adds its own covariance to that of the rows, which is taken off again, and leaves
    sampling noise of about its variance times ``√(2 n)`` on a sum over n rows, to
    which the rows add their own. What that drowns is shrunk by `gaussians_from_moments`.
    """
    centre = rows.mean(axis=0)
    away = rows - centre
    basis = _directions(away, codes, n_classes, n_components, noise_variance)
    coordinates = away @ basis
    n_rows, order = coordinates.shape
    spread = float(np.einsum("ij,ij->", coordinates, coordinates)) / n_rows
    scaled = (basis.T * noise_variance) @ basis
    radius = math.sqrt(max(spread - float(np.trace(scaled)), 1e-9 * spread, 1e-300))
    coordinates /= radius
    scaled /= radius**2
    moments = np.zeros((n_classes, order + 1, order + 1))
    for code in range(n_classes):
        mine = coordinates[codes == code]
        members = np.column_stack([mine, np.ones(len(mine))])
        moments[code] = members.T @ members
        moments[code, :-1, :-1] -= scaled * len(mine)
    # Sampling has noise of its own: rows of a spread of about 1 / order along each direction.
    noise = (float(np.trace(scaled)) + 1) / order * math.sqrt(2 * n_rows / n_classes)
    gaussians = gaussians_from_moments(moments, noise)
    return from_released(CentredGaussians(centre, basis, radius, gaussians, np.arange(n_classes)))


def _directions(
    away: Array, codes: Codes, n_classes: int, n_components: int, noise_variance: Array
) -> Array:
    """Principal directions above the edge of the noise's spectrum, and the class means."""
    n_rows, n_features = away.shape
    without_noise = away.T @ away / n_rows - np.diag(noise_variance)
    values, principal = top_eigenvectors(without_noise, n_components)
    edge = float(noise_variance.max()) * ((1 + math.sqrt(n_features / n_rows)) ** 2 - 1)
    counts = np.maximum(np.bincount(codes, minlength=n_classes), 1)
    means = np.array([away[codes == code].sum(axis=0) for code in range(n_classes)])
    both = np.column_stack([principal[:, values > edge], (means / counts[:, None]).T])
    left, sizes, _ = np.linalg.svd(both, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * max(float(sizes[0]), 1e-300)])
