"""What a released density answers, whichever way it was released; all of it is free."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.models.functions.grid_density import GridDensity
from sfumato.models.functions.plotting import plot_density
from sfumato.models.functions.process_density import ProcessDensity

Array = NDArray[np.float64]


class DensityAnswers(DensityMixin):
    """Answers of a released density at points, as samples and as a picture."""

    classes_: NDArray[Any]
    class_prior_: Array
    n_features_in_: int

    @abstractmethod
    def _released(self) -> GridDensity | ProcessDensity:
        """Return the released density."""

    @abstractmethod
    def _queries(self, X: ArrayLike) -> Array:
        """Check points."""

    @abstractmethod
    def _box(self) -> tuple[Array, Array]:
        """Return the corners of the box."""

    def raw_density(self, X: ArrayLike) -> Array:
        """Return the release itself with its noise, cell by cell or as a function; may be negative.

        Points outside the box are moved to it. One column a class where labels were given: the
        class density times the share of the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Values of the release.
        """
        lower, upper = self._box()
        values = self._released().raw(np.clip(self._queries(X), lower, upper))
        return values if self._has_classes() else np.asarray(values[:, 0])

    def _has_classes(self) -> bool:
        return len(self.classes_) > 1

    def _joint(self, X: ArrayLike) -> Array:
        released, rows = self._released(), self._queries(X)
        lower, upper = self._box()
        inside = np.all((rows >= lower) & (rows <= upper), axis=1)
        values = released.joint(np.clip(rows, lower, upper))
        return np.where(inside[:, None], values, 0.0)

    def density(self, X: ArrayLike) -> Array:
        """Return the density at points: near the release, nowhere negative, 0 outside the box.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The density.
        """
        return np.asarray(self._joint(X).sum(axis=1))

    def class_densities(self, X: ArrayLike) -> Array:
        """Return the density of each class at points, one column a class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The densities.
        """
        shares = np.where(self.class_prior_ > 0, self.class_prior_, np.inf)
        return np.asarray(self._joint(X) / shares)

    def score_samples(self, X: ArrayLike) -> Array:
        """Return the log of the density at points; minus infinity where it is 0.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Its logarithm.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.density(X)))

    def score(self, X: ArrayLike, y: object = None) -> float:  # noqa: ARG002 - the contract's y
        """Return the total log-likelihood of points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        float
            The sum of `score_samples`.
        """
        return float(self.score_samples(X).sum())

    def sample(
        self, n_samples: int = 1, random_state: Any = None
    ) -> Array | tuple[Array, NDArray[Any]]:
        """Draw private synthetic rows from the released density; free, and as many as wanted.

        Parameters
        ----------
        n_samples : int, default=1
            How many rows.
        random_state : int, RandomState or None
            Public randomness: the rows are drawn from what is public already.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows.
        y : ndarray of shape (n_samples,)
            Labels, only where the density was fitted with labels.
        """
        rows, codes = self._released().draw(n_samples, check_random_state(random_state))
        return (rows, self.classes_[codes]) if self._has_classes() else rows

    def cdf(self, values: ArrayLike) -> Array:
        """Return the distribution function of one feature, all classes together.

        Parameters
        ----------
        values : array-like
            Where.

        Returns
        -------
        ndarray
            Probabilities, in the shape of `values`.
        """
        return self._line().cdf(np.asarray(values, dtype=np.float64))

    def quantile(self, probabilities: ArrayLike) -> Array:
        """Return quantiles of one feature, all classes together.

        Parameters
        ----------
        probabilities : array-like
            Numbers in [0, 1].

        Returns
        -------
        ndarray
            Quantiles, in the shape of `probabilities`.
        """
        asked = np.asarray(probabilities, dtype=np.float64)
        if not ((asked >= 0) & (asked <= 1)).all():
            raise InvalidInputError("Probabilities must lie in [0, 1].")
        return self._line().quantile(asked)

    def n_modes(self) -> int:
        """Count the peaks of the density of one feature that rise above noise and sampling.

        Returns
        -------
        int
            At least 1.
        """
        return self._line().n_modes()

    def bands(self, X: ArrayLike, level: float = 0.95) -> tuple[Array, Array]:
        """Return bounds of the smoothed density without its noise; costs nothing.

        They come from the known law of the noise and hold at each point by itself, for the filter
        that was chosen. What the rows themselves say by chance, and what smoothing takes away, is
        not in them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; each stands for its cell.
        level : float, default=0.95
            Probability.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Bounds, one column per class where labels were given.
        """
        released = self._released()
        if not isinstance(released, GridDensity):
            raise UnsupportedModeError("Bands are for method 'grid'.")
        if not 0 < level < 1:
            raise InvalidInputError(f"'level' must lie in (0, 1). Got {level} instead.")
        ends = released.bands(self._queries(X), level)
        lower, upper = ends if self._has_classes() else (end[:, 0] for end in ends)
        return lower, upper

    def _line(self) -> GridDensity:
        released = self._released()
        if not isinstance(released, GridDensity) or self.n_features_in_ != 1:
            raise UnsupportedModeError(
                "Distribution function, quantiles and modes are for method 'grid' and one feature."
            )
        return released

    def plot(self, *, ax: Any = None, raw: bool = False) -> Any:
        """Draw the density of one or two features; `raw` adds the release itself on a line.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new picture.
        raw : bool, default=False
            Draw the release as well.

        Returns
        -------
        matplotlib Axes
            The picture.
        """
        check_is_fitted(self)
        return plot_density(self, ax=ax, raw=raw)
