"""One function, three ways out: values at points, answers one by one, or a finite vector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.accounting.receipt import Chargeable
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.functions.batch import has_taylor, release_at_points, release_on_grid
from sfumato.functions.domain import Domain
from sfumato.functions.features import FeatureMap, Function, TaylorFeatures
from sfumato.functions.maps import features_from_dict
from sfumato.functions.online import OnlineFunction
from sfumato.guarantee import Status
from sfumato.kernels import Kernel, KernelExpansion
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import noise_status

__all__ = ["ReleasedFunction", "release_function"]

Array = NDArray[np.float64]
LATTICE_BITS = 20


class ReleasedFunction:
    """``f~(x) = φ(x)·c``: public, finite, without state; it answers any number of queries.

    Parameters
    ----------
    features : FeatureMap
        The map φ.
    coordinates : ndarray of shape (size,) or (size, k)
        The released coordinates c.
    status : {"proved", "testing"}
        Whether the noise was real.
    """

    def __init__(
        self, features: FeatureMap, coordinates: Array, status: str = Status.PROVED
    ) -> None:
        self.features = features
        self.coordinates = np.asarray(coordinates, dtype=np.float64)
        self.status = Status(status)

    def __call__(self, X: ArrayLike) -> Array:
        """Evaluate at the rows of `X`."""
        return self.features.evaluate(self.coordinates, X)

    def to_dict(self) -> dict[str, Any]:
        """Give the function as plain values and arrays, which `sfumato.save` can store.

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
    how: str,
    points: ArrayLike | tuple[ArrayLike, ...] | None = None,
    domain: Bounds | None = None,
    n_features: int | None = None,
    features: FeatureMap | None = None,
    store: str | os.PathLike[str] | None = None,
    name: str | None = None,
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
    how : {"batch", "online", "features"}
        "batch": the values at `points`, now. "online": an `OnlineFunction`, which answers points
        one by one and keeps f in the curator's memory. "features": a `ReleasedFunction`, which
        answers for ever without f.
    points : array of shape (n, d) or tuple of d axes
        For "batch": rows of points, or the axes of a product grid.
    domain : Bounds
        For "online" and "features": the box in which the function may be asked.
    n_features : int, optional
        Number of axes d; by default that of the kernel expansion, of `features` or of the bounds.
    features : FeatureMap, optional
        The finite system, of the same kernel (FourierFeatures have another). By default Taylor
        features for a Gaussian kernel expansion; "online" without features goes point by point.
    store, name : optional
        For "online": where the answers are kept (a SQLite file or a postgresql:// URL), and the
        name of the release there. Without a store they end with this process.
    ledger : DatasetBudget or Receipt, optional
        Who pays.

    Returns
    -------
    ndarray, OnlineFunction or ReleasedFunction
        The released function or its values, by `how`.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds
    >>> from sfumato.kernels import GaussianKernel, KernelExpansion
    >>> from sfumato.mechanisms import GaussianProcessMechanism
    >>> rows = np.random.default_rng(0).uniform(size=(500, 1))
    >>> kernel = GaussianKernel(0.1)
    >>> f = KernelExpansion(kernel, rows, np.full(500, 1 / 500))
    >>> mechanism = GaussianProcessMechanism.calibrate(
    ...     sensitivity=2**0.5 / 500, epsilon=1.0, delta=1e-5)
    >>> released = release_function(
    ...     f, kernel=kernel, mechanism=mechanism, how="features",
    ...     domain=Bounds(lower=0.0, upper=1.0))
    >>> released([0.25, 0.5, 0.75]).shape
    (3,)
    """
    if how == "batch":
        return _batch(function, points, kernel=kernel, mechanism=mechanism, ledger=ledger)
    if how not in ("features", "online"):
        raise InvalidInputError(
            f"'how' must be 'batch', 'online' or 'features'. Got {how!r} instead."
        )
    axes = _number_of_axes(function, n_features, features, domain)
    if features is None and has_taylor(function, kernel):
        features = TaylorFeatures(kernel, _required(domain), axes)
    if how == "online":
        return OnlineFunction.begin(
            function,
            kernel=kernel,
            mechanism=mechanism,
            domain=Domain(_required(domain), axes, bits=LATTICE_BITS),
            features=features,
            ledger=ledger,
            store=store,
            name=name,
        )
    if features is None:
        raise InvalidInputError(
            "how='features' takes a KernelExpansion of the Gaussian kernel as it is; for any other "
            "function or kernel, choose public knots: features=KnotFeatures(kernel, knots)."
        )
    features.require_kernel(kernel, function)
    coordinates = mechanism.release(features.coordinates(function), ledger=ledger)
    return ReleasedFunction(features, coordinates, noise_status())


def _batch(
    function: Function,
    points: ArrayLike | tuple[ArrayLike, ...] | None,
    *,
    kernel: Kernel,
    mechanism: GaussianProcessMechanism,
    ledger: Chargeable | None,
) -> Array:
    if points is None:
        raise InvalidInputError("how='batch' needs 'points': rows, or a tuple of grid axes.")
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
