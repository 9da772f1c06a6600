"""Membership mappings: regression on inducing points, and autoencoders made of it.

`MembershipMapping` (Algorithm 1), `MembershipAutoencoder` (2) and `MembershipClassifier` (3, 4),
after what they compute.

One mapping is kernel ridge regression on its inducing points. With the kernel of unit variance,
``A = K_xaᵀ K_xa`` and ``B = K_aa = L Lᵀ``, equation (48) reads::

    yhat(x) = g(x) (A + lambda B)⁻¹ K_xaᵀ Y,        lambda = tau(M, 1) + 1 / (sigma² beta),

so that sigma² cancels but for lambda. With ``H = L⁻¹ K_xaᵀ``, ``H Hᵀ = U diag(l) Uᵀ`` and
``Z = Uᵀ H Y`` the error of the mapping at any lambda is a sum over M numbers::

    |Y - Yhat|² = |Y|² - sum_m |Z_m|² (2 / (l_m + lambda) - l_m / (l_m + lambda)²),

which makes each step of the loop for beta (steps 16 to 19) cost O(M).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state

from sfumato.core.arrays import (
    Array,
    cast,
    clip_to_finite,
    contiguous,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.core.constraints import (
    MAX_FLOAT32,
    Form,
    flag,
    integers,
    labels,
    list_of,
    numbers,
    one_of,
    real,
    record,
    refuse,
    whole,
)
from sfumato.core.parallel import map_in_parallel
from sfumato.models.hull_search import answer_by_number, cut_rows, in_batches
from sfumato.models.rows import (
    PRECISIONS,
    RowsClassifier,
    RowsEstimator,
    RowsTransformer,
    least_per_class,
)

Branch = dict[str, Any]  # see `_fields`
NU = 2.1  # degrees of freedom (52)
LLOYD_ITERATIONS = 10
JITTER, MAX_JITTER = 1e-10, 1e-2
# Where the search of the first layer begins, as a place in the list of sizes: 0.9**8 = 0.43.
# With many inputs all points are far apart and tau is large at once.
FIRST_GUESS, FEW_INPUTS = 8, 30
BETA_TOLERANCE = 1e-10
MAX_BETA_STEPS = 1000
MIN_EIGENVALUE = 1e-12  # of the largest; below it a direction counts as constant
BATCH_ROWS = 1024
SEEDS = 2**31 - 1

# Inducing points: centroids of k-means, and how many of them (Algorithm 1, steps 3 to 8) ---------


class Inducing(NamedTuple):
    """Inducing points a with ``K_aa = L Lᵀ``, ``H = L⁻¹ K_xaᵀ`` and ``tau(M, 1)`` (54)."""

    points: Array  # M x n
    inverse_factor: Array  # L⁻¹, M x M
    whitened: Array  # H, M x N
    tau: float


def cross_kernel(x: Array, centres: Array) -> Array:
    """Return ``exp(-|x_i - a_j|² / 2)``; the weights w of (17) are in the coordinates."""
    xp = namespace_of(x)
    exponents = x @ xp.matrix_transpose(centres)
    exponents -= xp.vecdot(centres, centres)[None, :] / 2
    exponents -= xp.vecdot(x, x)[:, None] / 2
    # Rounding may leave a hair above zero where a point meets a centre.
    return xp.exp(xp.clip(exponents, max=0.0))


def centroids(x: Array, n_points: int, seed: int) -> Array:
    """Return the centroids of k-means (51), started at random rows, the same for equal arguments.

    Half to a fifth of the rows become centroids, so that a few iterations settle them.
    """
    xp = namespace_of(x)
    order = check_random_state(seed).permutation(int(x.shape[0]))
    centres = xp.take(x, like(x, order[:n_points]), axis=0)
    clusters = xp.arange(n_points, device=x.device)[:, None]
    last = None
    for _ in range(LLOYD_ITERATIONS):
        # |x|² is the same for all centres.
        distances = xp.vecdot(centres, centres)[None, :] / 2 - x @ xp.matrix_transpose(centres)
        nearest = xp.argmin(distances, axis=1)
        if last is not None and bool(xp.all(nearest == last)):
            break
        last = nearest
        members = xp.astype(clusters == nearest[None, :], x.dtype)
        counts = xp.sum(members, axis=1)[:, None]
        centres = xp.where(counts > 0, members @ x / xp.clip(counts, min=1.0), centres)
    return centres


def choose_inducing(
    x: Array, scale: Array, max_points: int, *, kappa: float, seed: int, first_layer: bool
) -> Inducing:
    """Return the most inducing points, of ``M_0, M_{i+1} = ceil(0.9 M_i)``, with ``tau >= kappa``.

    `x` are the inputs around their mean; `scale` the factors that give the kernel its weights. As
    in (51), k-means sees the inputs without those weights.

    The printed loop walks down the list; tau grows as M falls, so that galloping away from a guess
    and halving the gap finds the same place after a few trials. As printed the list never gets
    below 9, since ``ceil(0.9 · 9) = 9``: from there on go down by 1.
    """
    xp = namespace_of(x)
    sizes = [max_points]
    while sizes[-1] > 1:
        sizes.append(min(math.ceil(0.9 * sizes[-1]), sizes[-1] - 1))
    tried: dict[int, Inducing] = {}

    def passes(place: int) -> bool:
        points = centroids(x, sizes[place], seed) * scale
        kernel = cross_kernel(points, points)
        identity = xp.eye(sizes[place], dtype=kernel.dtype, device=kernel.device)
        jitter = JITTER  # few coordinates make the kernel singular, so it gets a small diagonal
        while True:
            try:
                inverse_factor = xp.linalg.inv(xp.linalg.cholesky(kernel + jitter * identity))
                break
            except (np.linalg.LinAlgError, RuntimeError):  # PyTorch's error is a RuntimeError
                jitter *= 10
                if jitter > MAX_JITTER:
                    raise
        whitened = inverse_factor @ cross_kernel(points, x * scale)
        unexplained = x.shape[0] - float(xp.sum(whitened * whitened))
        tau = unexplained / (NU + sizes[place] - 2)
        tried[place] = Inducing(points, inverse_factor, whitened, tau)
        return tau >= kappa or place == len(sizes) - 1

    far = first_layer and x.shape[1] <= FEW_INPUTS
    low, high, step = -1, len(sizes) - 1, 1  # low fails, or is no place; high passes
    place = min(FIRST_GUESS if far else 0, high)
    while high - low > 1 or high not in tried:
        if passes(place):
            high, place = place, place - step
        else:
            low, place = place, place + step
        step *= 2
        if not low < place < high:
            place = (low + high + 1) // 2
    return tried[high]


# One mapping (Algorithm 1) ----------------------------------------------------------------------


def fit_layer(
    x: Array,
    Y: Array,
    *,
    max_points: int,
    kappa: float,
    seed: int,
    width: int,
    first_layer: bool = True,
) -> tuple[dict[str, Any], Array]:
    """Fit Algorithm 1 and return the mapping with its outputs at the training inputs.

    It answers ``kernel((x - origin) · scale, inducing) @ coefficients``. Variances and errors are
    averaged by `width`: rows that were rotated into fewer coordinates keep the p they had.
    """
    xp = namespace_of(x)
    n_rows, origin = int(Y.shape[0]), xp.mean(x, axis=0)
    ranges = xp.max(x, axis=0) - xp.min(x, axis=0)
    varies = ranges > 0  # a constant input has range 0 and weight 0 (53)
    scale = xp.where(varies, 1 / xp.where(varies, ranges, xp.ones_like(ranges)), 0.0)
    found = choose_inducing(
        x - origin, scale, max_points, kappa=kappa, seed=seed, first_layer=first_layer
    )
    variance = 1.0  # steps 9 to 13; identical inputs have tau = 0, and then any variance serves
    if n_rows > 1 and found.tau > 0:
        away = Y - xp.mean(Y, axis=0)
        data_variance = float(xp.sum(away * away)) / (n_rows - 1) / width
        variance = 1.0 if found.tau >= data_variance else data_variance / found.tau
    spectrum, rotation = xp.linalg.eigh(found.whitened @ xp.matrix_transpose(found.whitened))
    image = xp.matrix_transpose(rotation) @ (found.whitened @ Y)  # Z
    spectrum = xp.clip(spectrum, min=0.0)

    total, count, energy = float(xp.sum(Y * Y)), n_rows * width, xp.vecdot(image, image)
    least = max(total * 1e-14, 1e-300)  # rows met exactly would have infinite precision
    precision = 1.0
    for _ in range(MAX_BETA_STEPS):  # the fixed point of beta, steps 15 to 19
        raised = spectrum + (max(found.tau, 0.0) + 1 / (variance * precision))
        explained = float(xp.sum(energy * (2 / raised - spectrum / (raised * raised))))
        last, precision = precision, count / max(total - explained, least)
        if abs(precision - last) <= BETA_TOLERANCE * precision:
            break
    shift = max(found.tau, 0.0) + 1 / (variance * precision)
    mixed = rotation @ (image / (spectrum + shift)[:, None])  # (C + lambda)⁻¹ H Y
    layer = {
        "origin": origin,
        "scale": scale,
        "inducing": found.points,
        "coefficients": xp.matrix_transpose(found.inverse_factor) @ mixed,
        "tau": found.tau,
        "variance": variance,  # sigma²
        "noise_precision": precision,  # beta
    }
    return layer, xp.matrix_transpose(found.whitened) @ mixed


# The conditionally deep autoencoder of one set of rows (Algorithm 2, Definition 11) --------------
#
# Between two layers only the leading coordinates of the output are wanted, so that a fitted layer
# also keeps its coefficients times the directions (`onward`), and one eigen-decomposition serves
# all layers: their directions are the first ones of the same covariance.


_layer = record(
    inducing=numbers("M", "n"),
    coefficients=numbers("M", "d"),
    onward=numbers("M", "m"),  # inputs of the next layer before `onward_origin` is taken off
    onward_origin=numbers("m"),
    tau=real(),
    variance=real(least=0.0),
    noise_precision=real(least=0.0, most=1e308),
)
_fields = record(
    centre=numbers("d"),  # what is taken off the rows: their mean, or zero
    project=numbers("d", "first"),  # gives the inputs of the first layer
    origin=numbers("first"),
    layers=list_of(_layer),
)


def stored_branch(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for an autoencoder of rows of d numbers, each layer fitting the next."""
    _fields(value, place, sizes)
    if value["project"].dtype == np.float32 and np.abs(value["centre"]).max() > MAX_FLOAT32:
        raise refuse(f"{place}.centre", "numbers that single precision can square")
    given = sizes["first"]
    for layer in value["layers"]:
        if layer["inducing"].shape[1] != given or not len(layer["inducing"]):
            raise refuse(f"{place}.layers", "layers that accept the output of the layer before")
        given = layer["onward"].shape[1]


def fit_branch(
    rows: Array,
    *,
    n_components: int,
    n_layers: int,
    inducing_ratio: float,
    kappa: float,
    center: bool,
    seed: int,
    width: int | None = None,
    dtype: str = "float64",
) -> Branch:
    """Fit Algorithm 2 in double precision; layer l has ``max(n - l + 1, 1)`` inputs.

    `inducing_ratio` is ``M_max / N`` (68), `dtype` the precision of what is kept.
    """
    xp = namespace_of(rows)
    rows = cast(rows, "float64")
    n_rows, n_features = int(rows.shape[0]), int(rows.shape[1])
    mean = xp.mean(rows, axis=0)
    centre = mean if center else xp.zeros_like(mean)
    Y = rows - centre
    centred = rows - mean
    turned = xp.matrix_transpose(centred)
    is_wide = n_features > n_rows  # the leading eigenvectors, by the smaller Gram matrix
    values, vectors = xp.linalg.eigh(centred @ turned if is_wide else turned @ centred)
    rank = int(xp.sum(xp.astype(values > MIN_EIGENVALUE * values[-1], xp.int64)))
    n = max(1, min(n_components, rank, max(n_rows - 1, 1)))
    directions = xp.flip(vectors, axis=1)[:, :n]
    if is_wide and rank > 0:
        directions = (turned @ directions) / xp.sqrt(xp.flip(values)[:n])
    elif is_wide:  # rows that are all the same have no direction; any will do
        directions = xp.eye(n_features, dtype=rows.dtype, device=rows.device)[:, :1]
    x, max_points = Y @ directions, max(1, round(inducing_ratio * n_rows))
    fitted = []
    for number in range(n_layers):
        n = max(int(directions.shape[1]) - number, 1)
        layer, outputs = fit_layer(
            x[:, :n],
            Y,
            max_points=max_points,
            kappa=kappa,
            seed=seed + number,
            width=width or n_features,
            first_layer=number == 0,
        )
        fitted.append(layer)
        max_points = int(layer["inducing"].shape[0])
        x = outputs @ directions
    layers = []  # with the scales of the inputs in projections and coefficients
    for number, layer in enumerate(fitted):
        follower = fitted[min(number + 1, len(fitted) - 1)]
        n = follower["scale"].shape[0]
        onward = (layer["coefficients"] @ directions[:, :n]) * follower["scale"]
        layers.append(
            {
                "inducing": contiguous(layer["inducing"], dtype),
                "coefficients": contiguous(layer["coefficients"], dtype),
                "onward": contiguous(onward, dtype),
                "onward_origin": contiguous(follower["origin"] * follower["scale"], dtype),
                **{name: float(layer[name]) for name in ("tau", "variance", "noise_precision")},
            }
        )
    scale = fitted[0]["scale"]
    return {
        "centre": contiguous(centre, "float64"),
        "project": contiguous(directions[:, : scale.shape[0]] * scale, dtype),
        "origin": contiguous(fitted[0]["origin"] * scale, dtype),
        "layers": layers,
    }


def layer_outputs(branch: Branch, rows: Array) -> Iterator[Array]:
    """Yield the output of every layer for rows from which the centre was taken off (63)."""
    inputs = rows @ branch["project"] - branch["origin"]
    for layer in branch["layers"]:
        kernel = cross_kernel(inputs, layer["inducing"])
        yield kernel @ layer["coefficients"]
        inputs = kernel @ layer["onward"] - layer["onward_origin"]


def nearest_output(branch: Branch, rows: Array) -> tuple[Array, Array]:
    """Return the output nearest to each row, of any layer, and its squared distance (64), (65)."""
    xp = namespace_of(rows)
    best, least = rows, xp.full((rows.shape[0],), math.inf, dtype=rows.dtype, device=rows.device)
    for output in layer_outputs(branch, rows):
        found = xp.vecdot(output - rows, output - rows)
        best = xp.where((found < least)[:, None], output, best)
        least = xp.minimum(found, least)
    return best, least


def _subtract_centre(branch: Branch, rows: Array) -> Array:
    """Take the centre off in double precision, so that an offset costs no digits."""
    precision = _precision(branch)
    return cast(clip_to_finite(cast(rows, "float64") - branch["centre"], precision), precision)


def _precision(branch: Branch) -> str:
    single = namespace_of(branch["project"]).float32
    return "float32" if branch["project"].dtype == single else "float64"


def evaluate(branch: Branch, rows: Array) -> Array:
    """Filter rows in batches, the centre taken off and put back."""
    answers = in_batches(
        lambda batch: nearest_output(branch, _subtract_centre(branch, batch))[0],
        like(branch["centre"], rows),
        batch_rows=BATCH_ROWS,
    )
    return answers + cast(branch["centre"], _precision(branch))


# Estimators -------------------------------------------------------------------------------------


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
    scaled_points_ : array of shape (n_inducing, n_features)
        Inducing points, less the origin and times the scale.
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

        $self
        """
        x = cast(self._begin(X), "float64")
        xp = namespace_of(x)
        targets = self._targets(x, y, multi_output=True, y_numeric=True)
        outputs = cast(like(x, targets), "float64")
        self.single_output_ = outputs.ndim == 1
        Y = outputs[:, None] if self.single_output_ else outputs
        self.offset_ = xp.mean(Y, axis=0) if self.center else xp.zeros_like(Y[0, :])
        layer, _ = fit_layer(
            x,
            Y - self.offset_,
            max_points=max(1, round(self.inducing_ratio * x.shape[0])),
            kappa=self.kappa,
            seed=int(check_random_state(self.random_state).randint(SEEDS)),
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

    def predict(self, X: Any) -> Array:
        """Return the outputs of the mapping (60).

        $rows
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The outputs.
        """
        rows = self._queries(X)
        x = cast(like(self.origin_, rows), "float64")
        kernel = cross_kernel((x - self.origin_) * self.scale_, self.scaled_points_)
        answer = like(X, kernel @ self.coefficients_ + self.offset_)
        return answer[:, 0] if self.single_output_ else answer


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

    def _words(self) -> dict[str, Any]:
        """Return the parameters of a branch."""
        names = ("n_components", "n_layers", "inducing_ratio", "kappa", "center", "dtype")
        return {name: getattr(self, name) for name in names}


class MembershipAutoencoder(_Autoencoders, RowsTransformer):
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
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import MembershipAutoencoder
    >>> X = load_digits(n_class=1).data / 16
    >>> MembershipAutoencoder(5, n_layers=2, random_state=0).fit_transform(X).shape
    (178, 64)
    """

    learned: ClassVar[Form] = {"branch_": stored_branch}

    def _fit_rows(self, rows: Array) -> None:
        seed = int(check_random_state(self.random_state).randint(SEEDS))
        self.branch_ = fit_branch(rows, seed=seed, **self._words())

    def transform(self, X: Any) -> Array:
        """Filter rows: return the nearest output of all layers (64).

        $rows
        ndarray of shape (n_samples, n_features)
            The filtered rows.
        """
        return like(X, evaluate(self.branch_, self._queries(X)))


@dataclass(eq=False, repr=False)
class MembershipClassifier(RowsClassifier, _Autoencoders):
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

    _: KW_ONLY
    branch_size: int = 1000
    n_jobs: int | None = None

    parameters: ClassVar[Form] = {"branch_size": whole(least=1)}
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "branches_": list_of(stored_branch, size="b"),
        "branch_classes_": integers("b", below="c", all_of_them=True),
    }

    # The p by which errors are averaged, for rows that were rotated into fewer coordinates.
    _width: ClassVar[int | None] = None

    def _fit_classes(self, rows: Array, codes: NDArray[np.intp]) -> None:
        generator = check_random_state(self.random_state)
        groups, self.branch_classes_ = cut_rows(
            rows, codes, branch_size=self.branch_size, random_state=generator
        )
        seeds = generator.randint(SEEDS, size=len(groups)).tolist()
        self.branches_ = map_in_parallel(
            lambda i: fit_branch(groups[i], seed=seeds[i], width=self._width, **self._words()),
            range(len(groups)),
            n_jobs=self.n_jobs,
        )

    def _cluster_errors(self, rows: Array, numbers: Sequence[int] | None = None) -> Array:
        """Return the squared error of each row under each cluster, or some of them."""
        asked = self.branches_ if numbers is None else [self.branches_[i] for i in numbers]

        def of_each(batch: Array) -> Array:
            found = [nearest_output(b, _subtract_centre(b, batch))[1] for b in asked]
            return namespace_of(batch).stack(found, axis=1)

        return in_batches(
            of_each,
            like(self.branches_[0]["centre"], rows),
            n_jobs=self.n_jobs,
            batch_rows=BATCH_ROWS,
        )

    def _errors(self, rows: Array) -> Array:  # the least of (71)
        return least_per_class(self._cluster_errors(rows), self.branch_classes_)

    def errors(self, X: Any) -> Array:
        """Return the squared error of each row under each class, shape (n_samples, n_classes).

        $rows
        ndarray of shape (n_samples, n_classes)
            Squared errors.
        """
        return like(X, self._errors(self._queries(X)))

    def decision_function(self, X: Any) -> Array:
        """Return minus the errors; with two classes, the first error less the second.

        $rows
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

        def of_class(code: int, rows: Array) -> Array:
            own = np.flatnonzero(self.branch_classes_ == code)
            nearest = own[to_numpy(self._cluster_errors(rows, own.tolist())).argmin(axis=1)]
            return answer_by_number(
                nearest, rows, lambda i, some: evaluate(self.branches_[i], some)
            )

        found = answer_by_number(
            codes, like(self.branches_[0]["centre"], self._queries(X)), of_class
        )
        return like(X, found)
