"""The record engine: Gaussians of the classes from a few noisy sums, and rows drawn from them.

Rows are first brought into the unit ball by their public bounds. Then

1. ``sum [z; |z|²; 1]`` gives a private mean and the spread of the rows around it;
2. ``sum (z - mean)(z - mean)ᵀ``, rows clipped at that spread, gives private directions U;
3. ``sum_{y=c} [u; w][u; w]ᵀ`` with ``u = Uᵀ(z - mean)``, clipped at the spread along U, gives one
   Gaussian per class;
4. where the budget allows, each class is cut into 2 or 4 parts at the mean and along the first
   axes of its Gaussian of step 3, and the sum of step 3 is taken again, part by part.

Centring and clipping at the released spread, and a weight w < 1 on the constant, make the
statistics of steps 3 and 4 several times larger against their noise than moments about the origin.

Where rows are so many that noise does not matter, and reading them is what costs, step 3 alone may
be taken, of all features about the origin (`single`): one release, one pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.gaussians import (
    CentredGaussians,
    ClassGaussians,
    default_n_gaussians,
    gaussians_from_moments,
    top_eigenvectors,
)
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.sums import ClassMoments, MeanAndSquares, Records, SecondMoment, Statistic
from sfumato.sums.maps import Centred, Projected
from sfumato.sums.statistics import Parts
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

# Chosen once on held-out training rows of a public image set, and fixed since.
MEAN_SHARE, PCA_SHARE = 0.02, 0.25  # of mu²; the class moments get the rest,
SKETCH_SHARE = 0.15  # less this for the first look at classes that are cut into parts
CLIP = 0.9  # of the root mean square length of the rows along U
CONSTANT = 0.5  # w; a power of two, so that scaling by it is exact
MIN_SPREAD = 1e-4  # of the squared radius of the bounds
PARTS = (4, 2)


def check_parts(gaussians_per_class: object) -> None:
    """Check the parameter of the estimators."""
    if gaussians_per_class not in (None, 1, *PARTS):
        raise InvalidInputError(
            f"'gaussians_per_class' must be 1, 2, 4 or None. Got {gaussians_per_class!r} instead."
        )


@dataclass(frozen=True)
class GaussiansPlan:
    """The mechanisms of the engine, in the order of the draws; everything in it is public.

    `components` is None where all features are kept, `sketch` where a class has one Gaussian, and
    `mean` where one release is all there is.
    """

    mean: GaussianMechanism | None
    components: GaussianMechanism | None
    sketch: GaussianMechanism | None
    moments: GaussianMechanism
    n_classes: int
    n_components: int
    n_parts: int

    @classmethod
    def of(
        cls,
        records: Records,
        *,
        epsilon: float,
        delta: float,
        n_classes: int,
        n_components: int,
        gaussians_per_class: int | None = None,
        single: bool = False,
    ) -> GaussiansPlan:
        """Choose the Gaussians per class, and divide ``mu²`` between the releases.

        Parameters
        ----------
        records : Records
            Only what is public of them is read.
        epsilon, delta : float
            The budget.
        n_classes : int
            Classes.
        n_components : int
            Private directions, at most as many as features; with all of them none are released.
        gaussians_per_class : int, optional
            By default `default_n_gaussians` where the number of rows is public, and 1 else.
        single : bool, default=False
            Spend everything on one release; a class has one Gaussian then.
        """
        mu = mu_from_budget(epsilon, delta)
        kept = records.width if single else n_components
        parts = 1 if single else gaussians_per_class or 1
        if gaussians_per_class is None and not single and records.public_rows is not None:
            parts = default_n_gaussians(
                epsilon=epsilon,
                delta=delta,
                n_rows=records.public_rows,
                n_classes=n_classes,
                n_components=n_components,
                noise=math.sqrt(records.variance_of(GaussianMechanism(1.0, 1.0))),
            )
        parts = parts if n_components > 1 else 1  # a cut needs an axis beside another
        # Parts of classes are groups of one and the same joint statistic.
        moments = partial(_mechanism, records, ClassMoments(n_classes * parts, kept, CONSTANT), mu)
        if single:
            return cls(None, None, None, moments(1.0), n_classes, n_components, 1)
        shares = MEAN_SHARE, PCA_SHARE * (n_components < records.width), SKETCH_SHARE * (parts > 1)
        second = SecondMoment(records.width)
        return cls(
            _mechanism(records, MeanAndSquares(records.width), mu, shares[0]),
            _mechanism(records, second, mu, shares[1]) if shares[1] else None,
            moments(shares[2]) if shares[2] else None,
            moments(1 - sum(shares)),
            n_classes,
            n_components,
            parts,
        )

    def mechanisms(self) -> tuple[GaussianMechanism, ...]:
        """List those in use."""
        listed = (self.mean, self.components, self.sketch, self.moments)
        return tuple(mechanism for mechanism in listed if mechanism is not None)


def release_gaussians(records: Records, plan: GaussiansPlan, receipt: Receipt) -> CentredGaussians:
    """Draw the releases of a plan and return the Gaussians that follow from them.

    Parameters
    ----------
    records : Records
        Rows of the unit ball; read once for each release.
    plan : GaussiansPlan
        What is released.
    receipt : Receipt
        Proof that all of it was paid for.

    Returns
    -------
    CentredGaussians
        In the unit ball.
    """
    if plan.mean is None:
        return _release_once(records, plan, receipt)
    mean, spread, n_rows = _release_mean(records, plan.mean, receipt)  # [R1] first release
    centred = records.mapped(Centred(mean, math.sqrt(spread)))
    basis, share = _release_basis(centred, plan, n_rows, receipt)  # [R2] second
    radius = CLIP * math.sqrt(min(max(share * spread, MIN_SPREAD), spread))
    projected = records.mapped(Projected(mean, basis, radius))
    parts, numbers = None, np.arange(plan.n_classes)
    if plan.sketch is not None:
        sketch = _release_moments(projected, plan, None, plan.sketch, receipt)  # [R3]
        parts = _parts_along(sketch, plan.n_parts)
        numbers = np.repeat(numbers, plan.n_parts)
    gaussians = _release_moments(projected, plan, parts, plan.moments, receipt)  # [R4] last release
    return CentredGaussians(mean, basis, radius, gaussians, numbers)


def _release_mean(
    records: Records, mechanism: GaussianMechanism, receipt: Receipt
) -> tuple[Array, float, float]:
    """Return the mean, the mean squared distance to it and the number of rows, private or not."""
    noisy = records.release(MeanAndSquares(records.width), mechanism, receipt)
    n_rows = float(records.public_rows or max(noisy[-1], 1.0))
    mean, square = noisy[:-2] / n_rows, min(max(float(noisy[-2]) / n_rows, 0.0), 1.0)
    noise = records.variance_of(mechanism) / n_rows**2
    # The noise adds to the length of the mean what it has itself; take that away again.
    length = float(mean @ mean)
    mean = mean * max(0.0, 1 - len(mean) * noise / length) if length > 0 else mean
    mean = Bounds(norm=1.0).clip(mean[None, :])[0]
    floor = max(MIN_SPREAD, 2 * math.sqrt(noise))
    return mean, min(max(square - float(mean @ mean), floor), 1.0), n_rows


def _release_basis(
    centred: Records, plan: GaussiansPlan, n_rows: float, receipt: Receipt
) -> tuple[Array, float]:
    """Return U and the mean squared length of the centred rows along it, at most 1."""
    if plan.components is None:
        return np.eye(centred.width), 1.0
    noisy = centred.release(SecondMoment(centred.width), plan.components, receipt)
    eigenvalues, basis = top_eigenvectors(noisy, plan.n_components)
    return basis, float(np.maximum(eigenvalues, 0).sum()) / n_rows


def _release_moments(
    records: Records,
    plan: GaussiansPlan,
    parts: Parts | None,
    mechanism: GaussianMechanism,
    receipt: Receipt,
) -> ClassGaussians:
    """Release the joint moments of all classes, or of their parts, and make Gaussians of them."""
    statistic = ClassMoments(plan.n_classes, records.width, CONSTANT, parts)
    noisy = statistic.unweighted(records.release(statistic, mechanism, receipt))
    return gaussians_from_moments(
        noisy, math.sqrt(records.variance_of(mechanism)), n_rows=records.public_rows
    )


def _release_once(records: Records, plan: GaussiansPlan, receipt: Receipt) -> CentredGaussians:
    """Release the class moments of all features about the origin; centre and U follow."""
    whole = _release_moments(records, plan, None, plan.moments, receipt)  # [R5] the only one
    mean = np.average(whole.means, axis=0, weights=whole.counts)
    apart = whole.means - mean
    spread = whole.covariances + apart[:, :, None] * apart[:, None, :]
    basis = top_eigenvectors(np.average(spread, axis=0, weights=whole.counts), plan.n_components)[1]
    # Two rows of the unit ball lie at most 2 apart, so that nothing is clipped at this radius.
    along = ClassGaussians(whole.counts, apart @ basis / 2, basis.T @ whole.covariances @ basis / 4)
    return CentredGaussians(mean, basis, 2.0, along, np.arange(plan.n_classes))


def _parts_along(sketch: ClassGaussians, n_parts: int) -> Parts:
    """Cut each class at its released mean along its first released axes."""
    n_axes = n_parts.bit_length() - 1
    return Parts(sketch.means, np.linalg.eigh(sketch.covariances)[1][:, :, : -n_axes - 1 : -1])


def _mechanism(
    records: Records, statistic: Statistic, mu: float, share: float
) -> GaussianMechanism:
    mechanism = GaussianMechanism.from_mu(
        sensitivity=records.sensitivity(statistic), mu=mu * math.sqrt(share)
    )
    return mechanism.for_size(statistic.size)  # what cannot be drawn is refused before the charge
