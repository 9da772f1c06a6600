"""Membership mappings: regression on inducing points, and autoencoders made of it.

`MembershipMapping` (Algorithm 1), `MembershipAutoencoder` (2), `WideMembershipAutoencoder` (3) and
`MembershipClassifier` (4); what is computed stands in `models/mapping_layers.py`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
)
from sklearn.utils import assert_all_finite, check_random_state

from sfumato.core.arrays import Array, cast, is_foreign_array, like, namespace_of, to_numpy
from sfumato.core.constraints import (
    Form,
    flag,
    integers,
    labels,
    listed,
    numbers,
    one_of,
    real,
    refuse,
    whole,
)
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError
from sfumato.models.hull_search import RowGroups, partition_groups, places_of
from sfumato.models.mapping_layers import (
    SEEDS,
    Branch,
    branch_errors,
    cross_kernel,
    evaluate,
    filtered_by,
    fit_branch,
    fit_layer,
    layer_outputs,
    seed_from,
    stored_branch,
)
from sfumato.models.rows import PRECISIONS, RowsEstimator, RowsTransformer, least_per_class


@dataclass(eq=False, repr=False)
class MembershipMapping(MultiOutputMixin, RegressorMixin, RowsEstimator):
    r"""Regression on inducing points whose smoothing follows from the data.

    .. math:: \hat y(x) = g(x)\,(K_{xa}^T K_{xa} + \lambda K_{aa})^{-1} K_{xa}^T Y, \qquad
              \lambda = \tau(M, 1) + 1 / (\sigma^2 \beta),

    with the Gaussian kernel on inputs divided by their ranges, centroids of k-means as inducing
    points, M of them such that :math:`\tau(M, 1) \ge \kappa`, and :math:`1/\beta` the mean squared
    error of the mapping itself.

    Parameters
    ----------
    inducing_ratio : float, default=0.5
        Largest number of inducing points, as a share of the rows, r_max.
    kappa : float, default=0.1
        Smallest tau(M, 1); a larger one gives fewer inducing points and a smoother mapping. With
        few inputs, 0.1 allows only one or two points: use a smaller value.
    center : bool, default=True
        Subtract the mean of y first. As printed (False), outputs are drawn to zero, and an
        offset that is large compared with the spread of y ruins the mapping.
    random_state : int, RandomState or None, default=None
        Starts of the k-means.

    Attributes
    ----------
    inducing_points_ : array of shape (n_inducing, n_features)
    coefficients_ : array of shape (n_inducing, n_outputs)
    tau_ : float
        tau(M, 1).
    kernel_variance_ : float
        sigma².
    noise_precision_ : float
        beta.
    origin_, scale_, offset_ : array
        Subtracted from the inputs; factor of the inputs; added to the outputs.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import MembershipMapping
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> mapping = MembershipMapping(kappa=1e-6, random_state=0).fit(x, np.sin(3 * x[:, 0]))
    >>> bool(mapping.score(x, np.sin(3 * x[:, 0])) > 0.99)
    True
    """

    _: KW_ONLY
    inducing_ratio: float = 0.5
    kappa: float = 0.1
    center: bool = True
    random_state: Any = None

    parameters: ClassVar[Form] = {
        "inducing_ratio": real(above=0.0, most=1.0),
        "kappa": real(above=0.0),
        "center": flag(),
    }
    learned: ClassVar[Form] = {
        "single_output_": flag(),
        "offset_": numbers("p"),
        "origin_": numbers("d"),
        "scale_": numbers("d", least=0.0),
        "scaled_points_": numbers("M", "d"),
        "coefficients_": numbers("M", "p"),
        "tau_": real(),
        "kernel_variance_": real(least=0.0),
        "noise_precision_": real(least=0.0, most=1e308),
    }

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the mapping from rows of X to rows of y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs.

        Returns
        -------
        Self
            The fitted estimator.
        """
        x = cast(self._begin(X), "float64")
        xp = namespace_of(x)
        outputs = _checked_outputs(y, x)
        self.single_output_ = outputs.ndim == 1
        Y = outputs[:, None] if self.single_output_ else outputs
        self.offset_ = xp.mean(Y, axis=0) if self.center else xp.zeros_like(Y[0, :])
        layer, _ = fit_layer(
            x,
            Y - self.offset_,
            max_points=max(1, round(self.inducing_ratio * x.shape[0])),
            kappa=self.kappa,
            seed=seed_from(self.random_state),
            width=int(Y.shape[1]),
        )
        self.origin_, self.scale_ = layer["origin"], layer["scale"]
        self.scaled_points_ = layer["inducing"]
        self.coefficients_ = layer["coefficients"]
        self.tau_, self.kernel_variance_ = layer["tau"], layer["variance"]
        self.noise_precision_ = layer["noise_precision"]
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if self.single_output_ and sizes["p"] != 1:
            raise refuse("single_output_", "false where there are several outputs")

    @property
    def inducing_points_(self) -> Array:
        """Inducing points in the units of X."""
        xp = namespace_of(self.scale_)
        constant = self.scale_ == 0
        return self.scaled_points_ / xp.where(constant, 1.0, self.scale_) + self.origin_

    def predict(self, X: Any) -> Array:
        """Return the outputs of the mapping (60).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The outputs.
        """
        rows = self._queries(X)
        x = cast(like(self.origin_, rows), "float64")
        kernel = cross_kernel((x - self.origin_) * self.scale_, self.scaled_points_)
        answer = like(X, kernel @ self.coefficients_ + self.offset_)
        return answer[:, 0] if self.single_output_ else answer


def _checked_outputs(y: Any, x: Array) -> Array:
    """Return y as finite doubles beside the inputs, of one or two dimensions."""
    if y is None:
        raise InvalidInputError(
            "MembershipMapping requires y to be passed, but the target y is None."
        )
    try:
        values = y if is_foreign_array(y) else np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("'y' must contain numbers, one row for each row of X.") from None
    if values.ndim not in (1, 2) or values.shape[0] != x.shape[0]:
        raise InvalidInputError(
            f"'y' must have one row for each of the {x.shape[0]} rows of X, in one or two "
            f"dimensions. Got inconsistent shape {tuple(values.shape)}."
        )
    try:
        if not is_foreign_array(values):
            assert_all_finite(values, input_name="y")
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    return cast(like(x, values), "float64")


@dataclass(eq=False, repr=False)
class _Autoencoders(RowsEstimator):
    """The parameters of autoencoders, one or many."""

    n_components: int = 20
    _: KW_ONLY
    n_layers: int = 5
    inducing_ratio: float = 0.5
    kappa: float = 0.1
    center: bool = True
    dtype: str = "float64"
    random_state: Any = None

    parameters: ClassVar[Form] = {
        **MembershipMapping.parameters,
        "n_components": whole(least=1),
        "n_layers": whole(least=1),
        "dtype": one_of(*PRECISIONS),
    }

    def _fit_branch(self, rows: Array, seed: int, width: int | None = None) -> Branch:
        names = ("n_components", "n_layers", "inducing_ratio", "kappa", "center", "dtype")
        words: dict[str, Any] = {name: getattr(self, name) for name in names}
        return fit_branch(rows, seed=seed, width=width, **words)

    def _errors(self, X: Any) -> Array:
        """Return the squared error of each row under each cluster."""
        rows, words = self._queries(X), ("n_jobs", "verbose")
        options = {name: getattr(self, name, None) for name in words}
        return branch_errors(self._clusters(), rows, **options)

    def _clusters(self) -> list[Branch]:
        found: list[Branch] = self.branches_
        return found


class _Filter(RowsTransformer, _Autoencoders):
    """What both share: the nearest output of all clusters and layers."""

    def transform(self, X: Any) -> Array:
        """Filter rows: return the nearest output of all clusters and layers (64), (69).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The filtered rows.
        """
        nearest = np.asarray(to_numpy(self._errors(X)).argmin(axis=1))
        return like(X, filtered_by(self._clusters(), nearest, self._queries(X)))

    def errors(self, X: Any) -> Array:
        """Return the squared distance of each row to what `transform` makes of it (65), (70).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Squared errors.
        """
        found = self._errors(X)
        return like(X, namespace_of(found).min(found, axis=1))


class MembershipAutoencoder(_Filter):
    r"""Layers of membership mappings, each from fewer principal coordinates back to the row.

    .. math:: x^1 = P y, \quad x^{l+1} = P^{l+1} \hat y^l(x^l), \quad
              D(y) = \hat y^{l^*}, \quad l^* = \arg\min_l \|y - \hat y^l\|^2 .

    Parameters
    ----------
    $layers

    Attributes
    ----------
    branch_ : dict
        The folded model.
    n_inducing_ : list of int
        Inducing points M of each layer.
    noise_precision_ : list of float
        beta of each layer.
    n_features_in_ : int

    See Also
    --------
    WideMembershipAutoencoder : For many rows.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import MembershipAutoencoder
    >>> X = load_digits(n_class=1).data / 16
    >>> model = MembershipAutoencoder(5, n_layers=2, random_state=0).fit(X)
    >>> model.layer_outputs(X).shape
    (178, 2, 64)
    """

    learned: ClassVar[Form] = {
        "branch_": stored_branch,
        "n_inducing_": listed(whole(least=1)),
        "noise_precision_": listed(real(least=0.0, most=1e308)),
    }

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - the contract's y
        """Learn the layers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        Self
            The fitted estimator.
        """
        self.branch_ = self._fit_branch(self._begin(X), seed_from(self.random_state))
        self.n_inducing_ = [int(layer["inducing"].shape[0]) for layer in self.branch_["layers"]]
        self.noise_precision_ = [layer["noise_precision"] for layer in self.branch_["layers"]]
        return self

    def _clusters(self) -> list[Branch]:
        return [self.branch_]

    def layer_outputs(self, X: Any) -> Array:
        """Return the outputs of all layers, shape (n_samples, n_layers, n_features).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_layers, n_features)
            The outputs.
        """
        rows = self._queries(X)

        def stacked(branch: Branch, batch: Array) -> Array:
            return namespace_of(batch).stack(list(layer_outputs(branch, batch)), axis=1)

        return like(X, evaluate(self.branch_, stacked, rows))


@dataclass(eq=False, repr=False)
class _ManyAutoencoders(_Autoencoders):
    """The parameters of many autoencoders, and how they are fitted."""

    _: KW_ONLY
    branch_size: int = 1000
    n_jobs: int | None = None
    verbose: bool = False

    parameters: ClassVar[Form] = {
        **_Autoencoders.parameters,
        "branch_size": whole(least=1),
    }

    def _fit_clusters(
        self, rows: Array, codes: NDArray[np.intp], width: int | None = None
    ) -> NDArray[np.intp]:
        """Cut the rows of each code and fit each cluster; return the code of each cluster."""
        generator = check_random_state(self.random_state)
        per_class = places_of(codes)
        cuts = partition_groups(
            RowGroups(rows, per_class),
            branch_size=self.branch_size,
            partition="kmeans",
            random_state=generator,
        )
        inside = [places_of(cut) for cut in cuts]
        places = [of[at] for of, cut in zip(per_class, inside, strict=True) for at in cut]
        groups = RowGroups(rows, places)
        seeds = generator.randint(SEEDS, size=len(groups)).tolist()
        self.branches_ = map_in_parallel(
            lambda number: self._fit_branch(groups[number], seeds[number], width),
            range(len(groups)),
            n_jobs=self.n_jobs,
            progress="Fitting autoencoders" if self.verbose else None,
        )
        return np.repeat(np.arange(len(cuts)), [len(of_class) for of_class in inside])


class WideMembershipAutoencoder(_Filter, _ManyAutoencoders):
    r"""Cut many rows into clusters, fit an autoencoder to each and keep the nearest output.

    .. math:: W(y) = D_{s^*}(y), \quad s^* = \arg\min_{s \le S} \|y - D_s(y)\|^2, \quad
              S = \lceil N / \text{branch size} \rceil .

    Parameters
    ----------
    $layers
    branch_size : int, default=1000
        Rows per cluster on average.
    $work

    Attributes
    ----------
    branches_ : list of dict
        The folded model of each cluster.
    n_features_in_ : int

    See Also
    --------
    MembershipAutoencoder : A single cluster.
    MembershipClassifier : One wide autoencoder per class.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import WideMembershipAutoencoder
    >>> X = load_digits().data / 16
    >>> model = WideMembershipAutoencoder(5, n_layers=1, branch_size=600, random_state=0).fit(X)
    >>> len(model.branches_), model.transform(X).shape
    (3, (1797, 64))
    """

    learned: ClassVar[Form] = {"branches_": listed(stored_branch)}

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 - the contract's y
        """Cut the rows and learn one autoencoder per cluster.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : None
            Not used.

        Returns
        -------
        Self
            The fitted estimator.
        """
        rows = self._begin(X)
        self._fit_clusters(rows, np.zeros(rows.shape[0], dtype=np.intp))
        return self


class MembershipClassifier(ClassifierMixin, _ManyAutoencoders):
    r"""Assign a row the label of the class whose wide autoencoder rebuilds it best.

    .. math:: \hat c(y) = \arg\min_c \|y - W_c(y)\|^2 .

    Parameters
    ----------
    $layers
    branch_size : int, default=1000
        Rows per cluster on average.
    $work

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    branches_ : list of dict
        The folded model of each cluster.
    branch_classes_ : ndarray of shape (n_branches,)
        Position in `classes_` of the class of each cluster.
    n_features_in_ : int

    Notes
    -----
    Scale features to about [0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import MembershipClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MembershipClassifier(10, n_layers=2, random_state=0).fit(X[:1200] / 16, y[:1200])
    >>> bool(model.score(X[1200:] / 16, y[1200:]) > 0.93)
    True
    """

    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "branches_": listed(stored_branch, size="b"),
        "branch_classes_": integers("b", below="c", all_of_them=True),
    }

    def fit(self, X: Any, y: Any) -> Self:
        """Learn one wide autoencoder per class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels of any type; a class may have a single row.

        Returns
        -------
        Self
            The fitted estimator.
        """
        return self.fit_with_width(X, y, None)

    def fit_with_width(self, X: Any, y: Any, width: int | None) -> Self:
        """Fit rows that were rotated into fewer coordinates and keep the width they had.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        width : int or None
            The number of features p by which errors are averaged; None for that of X.

        Returns
        -------
        Self
            The fitted estimator.
        """
        rows = self._begin(X)
        self.branch_classes_ = self._fit_clusters(rows, self._class_codes(y, rows.shape[0]), width)
        return self

    def predict(self, X: Any) -> Array:
        """Return the label of the class with the least error (71).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        return self._labels(X, self.errors(X))

    def errors(self, X: Any) -> Array:
        """Return the squared error of each row under each class, shape (n_samples, n_classes).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Squared errors.
        """
        found = self._errors(X)
        return like(X, least_per_class(found, self.branch_classes_))

    def decision_function(self, X: Any) -> Array:
        """Return minus the errors; with two classes, the first error less the second.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores; the second shape for more than two classes.
        """
        found = self.errors(X)
        return found[:, 0] - found[:, 1] if found.shape[1] == 2 else -found

    def filtered(self, X: Any, codes: NDArray[np.intp]) -> Array:
        """Filter each row by the autoencoder of one class, as source to target models need it (84).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        codes : ndarray of shape (n_samples,)
            Position in `classes_` of the class for each row.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The filtered rows.
        """
        foreign = self.branch_classes_[None, :] != codes[:, None]
        nearest = np.where(foreign, np.inf, to_numpy(self._errors(X))).argmin(axis=1)
        return like(X, filtered_by(self.branches_, nearest, self._queries(X)))
