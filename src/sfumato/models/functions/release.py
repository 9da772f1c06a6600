"""A function leaves as values at points or as a finite vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import noise_status
from sfumato.models.functions.domain import as_points
from sfumato.models.functions.features import (
    FeatureMap,
    Function,
    TaylorFeatures,
    nugget_cholesky,
    raw_values,
)
from sfumato.models.functions.maps import features_from_dict
from sfumato.models.kernels import ExponentialKernel, GaussianKernel, Kernel, KernelExpansion
from sfumato.models.kernels.bridge import MarkovLine
from sfumato.privacy.guarantee import Status
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]


class ReleasedFunction:
    """``f~(x) = φ(x)·c``: public, finite, without state; it answers any number of queries.

    Parameters
    ----------
    features : FeatureMap
        The map φ.
    coordinates : ndarray of shape (size,) or (size, k)
        The released coordinates c.
    status : {"conditional", "testing"}
        "conditional": the guarantee holds if the sensitivity is true of the function, which nobody
        but its maker knows. "testing": the noise was seeded.
    """

    def __init__(
        self, features: FeatureMap, coordinates: Array, status: str = Status.CONDITIONAL
    ) -> None:
        self.features = features
        self.coordinates = np.asarray(coordinates, dtype=np.float64)
        self.status = Status(status)

    def __call__(self, X: ArrayLike) -> Array:
        """Evaluate at the rows of `X`."""
        return self.features.evaluate(self.coordinates, X)

    def to_dict(self) -> dict[str, Any]:
        """Return the function as plain values and arrays, which `sfumato.save` can store.

        Returns
        -------
        dict
            Plain values, which `from_dict` reads.
        """
        return {
            "features": self.features.to_dict(),
            "coordinates": self.coordinates,
            "status": str(self.status),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ReleasedFunction:
        """Rebuild a function from `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` gave.
        """
        features = features_from_dict(record["features"])
        return cls(features, record["coordinates"], record["status"])

    def __repr__(self) -> str:
        return f"ReleasedFunction({self.features.size} coordinates, status '{self.status}')"


def release_function(
    function: Function,
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    form: str,
    points: ArrayLike | tuple[ArrayLike, ...] | None = None,
    domain: Bounds | None = None,
    n_features: int | None = None,
    features: FeatureMap | None = None,
    ledger: Chargeable | None = None,
) -> Any:
    """Release a function of the space H of `kernel`, charged once.

    Parameters
    ----------
    function : KernelExpansion or callable
        The raw function f; a callable takes rows of points and gives one number for each.
    kernel : Kernel
        The kernel of H, in whose norm the mechanism's sensitivity is stated.
    mechanism : GaussianProcessMechanism
        The noise.
    form : {"batch", "features"}
        "batch": the values at `points`. "features": a `ReleasedFunction`, which answers any number
        of questions without f.
    points : array of shape (n, d) or tuple of d axes
        For "batch": rows of points, or the axes of a product grid.
    domain : Bounds
        For "features": the box in which the function may be asked.
    n_features : int, optional
        Number of axes d; by default that of the kernel expansion, of `features` or of the bounds.
    features : FeatureMap, optional
        The finite system, of the same kernel (FourierFeatures have another). By default Taylor
        features for a Gaussian kernel expansion.
    ledger : DatasetBudget or Receipt, optional
        Who pays.

    Returns
    -------
    ndarray or ReleasedFunction
        The released function or its values, by `form`.

    Privacy
    -------
    Unit and relation : those of the mechanism's sensitivity.
    Released : coordinates of f, or values computed from them.
    Sensitivity : the caller states it, in the norm of H.
    Guarantee : mu-GDP, `mechanism.event()`; conditional, see the next line.
    Assumptions and numerics : the sensitivity is true of the function, and its coordinates are
        computed to within 2⁻¹¹ of the sensitivity; at up to 8192 points it is enough that f is
        evaluated to within 2⁻³⁴ of it. No code can check either. Proof: docs/guarantees/process.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.models.kernels import GaussianKernel, KernelExpansion
    >>> from sfumato.mechanisms import GaussianProcessMechanism
    >>> rows = np.random.default_rng(0).uniform(size=(500, 1))
    >>> kernel = GaussianKernel(0.1)
    >>> f = KernelExpansion(kernel, rows, np.full(500, 1 / 500))
    >>> mechanism = GaussianProcessMechanism.calibrate(
    ...     sensitivity=2**0.5 / 500, epsilon=1.0, delta=1e-5)
    >>> released = release_function(
    ...     f, kernel=kernel, mechanism=mechanism, form="features",
    ...     domain=Bounds(lower=0.0, upper=1.0))
    >>> released([0.25, 0.5, 0.75]).shape
    (3,)
    """
    if form == "batch":
        return _batch(function, points, kernel=kernel, mechanism=mechanism, ledger=ledger)
    if form != "features":
        raise InvalidInputError(f"'form' must be 'batch' or 'features'. Got {form!r} instead.")
    axes = _number_of_axes(function, n_features, features, domain)
    if features is None and has_taylor(function, kernel):
        features = TaylorFeatures(kernel, _required(domain), axes)
    if features is None:
        raise InvalidInputError(
            "form='features' takes a KernelExpansion of the Gaussian kernel as it is; for any "
            "other function or kernel, choose public knots: features=KnotFeatures(kernel, knots)."
        )
    features.require_kernel(kernel, function)
    coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
    # The sensitivity of f, and how exactly f is evaluated, are the caller's word.
    is_real = noise_status() is Status.PROVED
    return ReleasedFunction(
        features, coordinates, Status.CONDITIONAL if is_real else Status.TESTING
    )


def _batch(
    function: Function,
    points: ArrayLike | tuple[ArrayLike, ...] | None,
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    ledger: Chargeable | None,
) -> Array:
    if points is None:
        raise InvalidInputError("form='batch' needs 'points': rows, or a tuple of grid axes.")
    options: dict[str, Any] = {"kernel": kernel, "mechanism": mechanism, "ledger": ledger}
    if isinstance(points, tuple):
        return release_on_grid(function, points, **options)
    return release_at_points(function, points, **options)


def _required(domain: Bounds | None) -> Bounds:
    if domain is None:
        raise InvalidInputError(
            "A 'domain' is needed, the public box in which the function may be asked: "
            "domain=Bounds(lower=..., upper=...)."
        )
    return domain


def _number_of_axes(
    function: Function, given: int | None, features: FeatureMap | None, domain: Bounds | None
) -> int:
    if given is not None:
        return given
    if features is not None:
        return features.n_features
    if isinstance(function, KernelExpansion):
        return int(function.centres.shape[1])
    if domain is not None and isinstance(domain.lower, tuple):
        return len(domain.lower)
    return 1


# Values of a released function at points that are all known beforehand ----------------------------

CLOSEST = 2.0**-24  # points of a line nearer than this (in units of 1/γ) count as one


def release_at_points(
    function: Function,
    points: ArrayLike,
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    ledger: Chargeable | None,
) -> Array:
    """Release the values at rows of points: ``L (L⁻¹ f + noise)`` with ``L Lᵀ = K``.

    A kernel expansion with the Gaussian kernel goes through Taylor features, the exponential kernel
    on a line through its Markov factor, everything else through a dense factor of ``K + τ I``.
    """
    given = np.asarray(points, dtype=np.float64)
    rows = as_points(given, 1 if given.ndim < 2 else given.shape[1])
    _refuse_none(rows)
    if has_taylor(function, kernel):
        features = TaylorFeatures(kernel, _box_around(rows), rows.shape[1])
        coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
        return features.evaluate(coordinates, rows)
    if isinstance(kernel, ExponentialKernel) and rows.shape[1] == 1:
        x, place = _merged(rows[:, 0], float(kernel.rates(1)[0]))
        values = release_on_grid(function, (x,), kernel=kernel, mechanism=mechanism, ledger=ledger)
        return values[place]
    factor = nugget_cholesky(kernel, rows)
    coordinates = solve_triangular(factor, raw_values(function, rows), lower=True)
    return np.asarray(factor @ mechanism.release(coordinates, ledger=ledger))


def release_on_grid(
    function: Function,
    axes: Sequence[ArrayLike],
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    ledger: Chargeable | None,
) -> Array:
    """Release the values on the product of `axes`, one axis at a time."""
    lines = [as_points(axis, 1)[:, 0] for axis in axes]
    points = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    rows = points.reshape(-1, len(lines))
    _refuse_none(rows)
    if has_taylor(function, kernel):
        features = TaylorFeatures(kernel, _box_around(rows), len(lines))
        coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
        return features.evaluate_grid(coordinates, lines)
    if not isinstance(kernel, ExponentialKernel):
        values = release_at_points(
            function, rows, kernel=kernel, mechanism=mechanism, ledger=ledger
        )
        return values.reshape(points.shape[:-1])
    rates = kernel.rates(len(lines))
    _refuse_close(lines, rates)
    factors = [MarkovLine(line, rate) for line, rate in zip(lines, rates, strict=True)]
    coordinates = raw_values(function, rows).reshape(points.shape[:-1])
    for number, factor in enumerate(factors):
        coordinates = np.swapaxes(factor.whiten(np.swapaxes(coordinates, 0, number)), 0, number)
    values = mechanism.release(coordinates, ledger=ledger)
    for number, factor in enumerate(factors):
        values = np.swapaxes(factor.colour(np.swapaxes(values, 0, number)), 0, number)
    return values


def has_taylor(function: Function, kernel: Kernel) -> bool:
    """Whether f is a sum of Gaussian kernels in the very space in which it is released."""
    is_expansion = isinstance(function, KernelExpansion) and function.kernel == kernel
    return isinstance(kernel, GaussianKernel) and is_expansion


def _box_around(rows: Array) -> Bounds:
    """Smallest box of the public points; where it is flat, a little wider."""
    lower, upper = rows.min(axis=0), rows.max(axis=0)
    return Bounds(lower=lower, upper=np.maximum(upper, lower + 1e-9 * (1 + np.abs(lower))))


def _merged(x: Array, rate: float) -> tuple[Array, NDArray[np.intp]]:
    """Return increasing points that are far enough apart, and the place of each x among them."""
    order = np.argsort(x, kind="stable")
    kept: list[float] = []
    place = np.empty(len(x), dtype=np.intp)
    for i in order:
        if not kept or rate * (x[i] - kept[-1]) >= CLOSEST:
            kept.append(float(x[i]))
        place[i] = len(kept) - 1
    return np.array(kept), place


def _refuse_none(rows: Array) -> None:
    if rows.size == 0:
        raise InvalidInputError("'points' must contain at least one point.")


def _refuse_close(lines: Sequence[Array], rates: Array) -> None:
    for line, rate in zip(lines, rates, strict=True):
        if len(line) > 1 and not (rate * np.diff(line)).min() >= CLOSEST:
            raise InvalidInputError(
                "The points of each axis must increase, by at least "
                f"{CLOSEST:.1e} in units of 1/rate."
            )
