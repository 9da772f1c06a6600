"""Linear models of rows in the unit ball.

top_eigenvectors                      of a noisy matrix
whitening_projection, whitened_rows   rows of equal spread, by a released second moment
PrivateLinearClassifier               by noisy gradients
PrivateLinearRegressor                by noisy gradients, corrected by a noisy moment matrix
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import eigh

from sfumato.core.arrays import (
    Array as AnyArray,
    is_accelerated,
    is_foreign_array,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.core.constraints import Form, flag, labels, numbers, or_none, real, refuse, whole
from sfumato.models.base import Array, PrivateClassifier, PrivateRegressor, target_range
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.sums.gradients import (
    MAX_STEP,
    Descent,
    GradientSum,
    ResidualSum,
    SoftmaxLoss,
    coarse_bits,
    step_size,
)
from sfumato.sums.grid import FINE_BITS, ROW_BITS, ScoreWeights, truncate_to_grid
from sfumato.sums.maps import (
    ROUNDING_MARGIN,
    BesideTarget,
    IntoUnitBall,
    LinearRows,
    exact_product,
    exact_projection,
)
from sfumato.sums.persons import PerPersonClip
from sfumato.sums.statistics import ClassCounts, SecondMoment
from sfumato.tables.cells import is_out_of_core
from sfumato.tables.schema import TableBounds

# Public rule for the step: noise alone would move the score of a row of length 1 by this many
# units. Chosen, with clip and n_steps, on held-out training rows of two image sets at four budgets
# and under both relations: best within noise everywhere among 0.4, 0.8, 1.6, 3.2 and 6.4.
SCORE_NOISE = 1.6
MOMENT_SHARE = 0.3  # of mu², for the second moment
# By default 240 gradients are released; from so many records times mu per weight on 120, which was
# as accurate on held-out training rows of Adult and bank marketing.
DEFAULT_STEPS, CLEAR_SIGNAL = 240, 50.0
COUNT_SHARE = 1e-3  # of mu², for the size of each class where the number of rows is secret
WIDE = 64  # features of a ball that do without a constant
MAX_WHITENED = 2**13  # features: the second moment has their square, its eigenvectors their cube
FOREIGN = "the array library computes exp and sqrt of a number alike at every place of an array"

# Whitening. The floor is added to eigenvalues, as a share of the largest eigenvalue that noise
# alone would have; chosen on held-out training rows of two image sets among 0.03, 0.1 and 0.3.
FLOOR = 0.2
MIN_FLOOR = 1e-6  # of the largest eigenvalue, where there is no noise
# Chosen on held-out training rows of Adult, bank marketing and diamonds at three budgets.
CONSTANT = 0.25  # weight of the constant appended to rows of length 1
RADIUS = 1.0  # of the root mean square length of whitened rows: longer ones are scaled back
MIN_RADIUS = 2.0**-20
HIDDEN = 16.0  # times what noise could hide on an axis: more is an error of the known sum

# Regression. Share and noise were chosen, with clip and steps, on held-out training rows of
# diamonds and doctor contacts.
TARGET_NOISE = 0.4  # spreads of the target by which noise alone moves the score of a unit row
MIN_SPREAD = 1e-6
RESIDUAL_BITS = 8  # of rows of 12 bits: not of persons bounded together, nor of parties
STEEPEST = 8.0  # slope of the target over robust scores
CAUTION = 9.0  # times the variance of the noise of a correction


# What linear and additive models share: no row is read here ---------------------------------------


def choose_steps(model: Any, n_rows: int | None, width: int) -> int:
    """Return how many gradients to release, by public numbers; half where noise hides little."""
    if model.n_steps is not None:
        return int(model.n_steps)
    is_noisy = math.isfinite(model.epsilon)
    signal = (n_rows or 0) * mu_from_budget(model.epsilon, model.delta) if is_noisy else math.inf
    return DEFAULT_STEPS // 2 if signal >= CLEAR_SIGNAL * width else DEFAULT_STEPS


def top_eigenvectors(matrix: Array, n_components: int) -> tuple[Array, Array]:
    """Return the largest *algebraic* eigenvalues and their eigenvectors, largest first.

    Noise makes large negative eigenvalues; a singular value decomposition would keep them. Signs
    are fixed (largest entry positive), so that equal releases give equal components.
    """
    last = len(matrix) - 1
    values, vectors = eigh(matrix, subset_by_index=[last + 1 - n_components, last])
    if len(values) < n_components:  # LAPACK may lose some of many equal ones
        values, vectors = (found[..., -n_components:] for found in np.linalg.eigh(matrix))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(n_components)])
    return values, vectors * np.where(signs == 0, 1.0, signs)


def whitening_projection(moment: AnyArray, n_components: int, noise: float) -> AnyArray:
    """Return ``U (E + floor)^(-1/2)``, scaled so that its largest singular value is 1."""
    if is_foreign_array(moment):
        xp = namespace_of(moment)
        found = (xp.flip(part, axis=-1) for part in xp.linalg.eigh(moment))
        values, vectors = (part[..., :n_components] for part in found)
    else:
        values, vectors = top_eigenvectors(moment, n_components)
    values = np.maximum(to_numpy(values), 0.0)
    floor = FLOOR * noise * math.sqrt(2 * moment.shape[0]) + MIN_FLOOR * (values[0] or 1.0)
    scales = 1 / np.sqrt(values + floor)
    return vectors * like(vectors, scales / scales.max() * (1 - 2.0**-30))


def whitened_rows(
    moment: Array, noise: float, n_rows: float, default_square: float
) -> tuple[LinearRows, Array]:
    """Return the map to whitened rows with a constant, divided by their typical length.

    Also the mean squares of their numbers but the constant's. Eigenvalues of the moment
    that noise alone could have are not believed: these axes share what is left of the known sum of
    all, the mean squared length of a row, `default_square`, as far as noise could hide it.
    """
    projection = whitening_projection(moment, len(moment), noise)
    squares = np.sum(projection**2, axis=0)
    values = np.sum(projection * (moment @ projection), axis=0) / squares
    reach = noise * math.sqrt(2 * len(moment))
    is_seen = values > reach
    left = max(default_square * n_rows - float(values[is_seen].sum()), 0.0)
    values = np.where(
        is_seen, values, min(left / max(1, int(np.count_nonzero(~is_seen))), HIDDEN * reach)
    )
    spectrum = values * squares / n_rows
    radius = max(RADIUS * math.sqrt(float(spectrum.sum())), MIN_RADIUS)
    rows = LinearRows(len(moment), True, projection, constant=CONSTANT, radius=radius)
    return rows, np.minimum(spectrum / radius**2, 1.0) / (1 + CONSTANT**2)


# Classification -----------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class PrivateLinearClassifier(PrivateClassifier):
    """``argmax_c (W a)_c`` with private weights W of rows a in the unit ball, all classes jointly.

    Parameters
    ----------
    n_components : int or None, default=None
        Private principal components to classify in; None keeps the features as they are.
    whiten : bool or None, default=None
        Scale the components by the released second moment so that their variances become about
        equal, and each projected row to length 1. None: up to 8,192 features, where it was better
        on every set measured.
    fit_intercept : bool or None, default=None
        Append a constant to each row: ``a = [z; 1] / √2``. None: unless whitened rows can do
        without, by public facts: at least 64 features with a norm alone, or a table with
        categories, of which a row has exactly one.
    n_steps : int or None, default=None
        Gradients that are released. None: 240, or 120 from 50 records times μ per feature on.
    max_gradient_norm : float, default=0.1
        Largest length of a row's gradient; longer ones are shortened.
    $shared

    Attributes
    ----------
    $classes
    coef_ : ndarray of shape (1 or n_classes, n_features or n_components)
        Weights of a row in the unit ball, after `projection_` where there is one.
    intercept_ : ndarray of shape (1 or n_classes,)
        Weights of the constant; zeros without one.
    projection_ : ndarray of shape (n_features, n_components) or None
        The public projection of the rows.
    $guarantee

    Privacy
    -------
    Unit and relation : record, label included, or person; replace_one or add_or_remove_one.
    Released : with components or whitening, the noisy second moment; then `n_steps` noisy
        gradients (and, where the number of rows is secret, the size of each class with noise).
    Sensitivity : of a gradient ``2 L`` (replace) or L (add or remove), L the longest slopes of a
        row: √2, 1 for two classes, and at most `max_gradient_norm`.
    Guarantee : mu-GDP, all releases composed.
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**26 of them. Gradients are exact sums, and noise is
        float-safe. Proof: docs/guarantees/linear-classifier.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateLinearClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(norm=80.0, labels=range(10))
    >>> model = PrivateLinearClassifier(epsilon=8.0, delta=1e-5, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.6)
    True
    """

    _: KW_ONLY
    n_components: int | None = None
    whiten: bool | None = None
    fit_intercept: bool | None = None
    n_steps: int | None = None
    max_gradient_norm: float = 0.1

    groups_rows: ClassVar[bool] = True
    answers_alone: ClassVar[bool] = True
    parameters: ClassVar[Form] = {
        "n_components": or_none(whole(least=1)),
        "whiten": or_none(flag()),
        "fit_intercept": or_none(flag()),
        "n_steps": or_none(whole(least=1)),
        "max_gradient_norm": real(above=0.0, below=2.0),
    }
    learned: ClassVar[Form] = {
        "classes_": labels("c"),
        "projection_": or_none(numbers("d", "k")),
        "coef_": numbers("s", "w"),
        "intercept_": numbers("s"),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        records, budget = self._begin(X, y, groups)  # [L1] rows in the unit ball
        width, row_map = records.width, self._row_map()
        n_steps = choose_steps(self, records.public_rows, width)
        whitens, kept = row_map.unit_length, min(self.n_components or width, width)
        loss = SoftmaxLoss(len(self.classes_))
        clip = min(self.max_gradient_norm, loss.slope_bound)  # no slope of the loss is longer
        per_person = PerPersonClip.default(records.person, clip) if records.person else None
        shape = loss.n_scores, kept + row_map.intercept
        at_zero = GradientSum(loss, clip, np.zeros(shape), joined=per_person)

        moment = counts = None  # [L2] the budget divided
        if whitens or kept < width:
            moment = budget.gaussian(SecondMoment(width), MOMENT_SHARE)
        if records.public_rows is None:
            counts = budget.gaussian(ClassCounts(loss.n_classes), COUNT_SHARE)
        gradient = budget.gaussian(at_zero, count=n_steps)
        budget.charge()  # everything is charged, then drawn

        is_tensor = is_foreign_array(X) and not is_out_of_core(X)
        projection = None
        if moment is not None:
            stays = is_tensor and is_accelerated(X) and whitens and records.person is None
            noisy = budget.draw(moment, on_device=stays)  # [L3] second moment
            if whitens:
                projection = whitening_projection(noisy, kept, budget.noise(moment))
            else:
                projection = top_eigenvectors(noisy, kept)[1]
        rows = records.mapped(replace(row_map, projection=projection))
        # Rows of length 1 lose nothing by a coarser grid, others might.
        rows = rows.cache(in_singles=whitens)
        bits = coarse_bits(loss, clip) if whitens else ROW_BITS
        n_rows = float(records.public_rows or 0)
        if counts is not None:
            n_rows = max(1.0, float(budget.draw(counts, rows).sum()))

        noise = budget.noise(gradient) / n_rows
        step = step_size(noise, n_steps, SCORE_NOISE, MAX_STEP / clip)
        descent = Descent(shape, n_rows, n_steps, float(step))
        for _ in range(n_steps):
            at = ScoreWeights(descent.weights).rounded if whitens else descent.weights
            here = GradientSum(loss, clip, at, joined=per_person, slope_bits=bits)
            descent.follow(budget.draw(gradient, rows, here))  # [L6] a noisy gradient
        weights = descent.average
        # [L7] no row is read from here on
        self.projection_ = None if projection is None else to_numpy(projection)
        self.coef_ = np.ascontiguousarray(weights[:, :kept])
        self.intercept_ = weights[:, -1].copy() if row_map.intercept else np.zeros(len(weights))
        self.guarantee_ = budget.guarantee().only_if(*[FOREIGN] * is_tensor)
        return self

    def _row_map(self, projection: AnyArray = None) -> LinearRows:
        """Return the map of rows of the unit ball to those of the classifier, by public facts.

        Rows around zero need a constant. Rows of a ball have a mean of their own, and encoded
        categories add up to a constant, unless rows are moved to the centre of a box.
        """
        width = self.n_features_in_
        whitens = width <= MAX_WHITENED if self.whiten is None else bool(self.whiten)
        constant = self.fit_intercept
        if constant is None:
            bounds = self.row_bounds
            has_mean = bounds.norm is not None and bounds.lower is None and width >= WIDE
            if isinstance(self.bounds, TableBounds):
                features = self.bounds.features
                has_mean = any(f.categories is not None and not f.ordered for f in features)
            constant = not (whitens and has_mean) or bool(bounds.ball(width)[0].any())
        return LinearRows(width, bool(constant), projection, whitens)

    def _keeps_tensors(self) -> bool:
        return not getattr(self.bounds, "has_ranges", False)

    def _scores(self, rows: Any) -> Array:
        row_map, weights = self._row_map(self.projection_), self.coef_
        if row_map.intercept:
            weights = np.hstack([weights, self.intercept_[:, None]])
        mapped = row_map(IntoUnitBall(self.row_bounds, self.n_features_in_)(rows))
        return to_numpy(exact_projection(mapped, weights.T, n_digits=2))

    def _check_stored(self, sizes: dict[str, int]) -> None:
        super()._check_stored(sizes)
        if sizes["w"] != sizes.get("k", sizes["d"]):
            raise refuse("coef_", "one weight for each number of a mapped row")


# Regression ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WithTarget:
    """``x and t -> [z; 1; t] / √3``, in the unit ball, and 0 where the target is missing.

    into_ball: ``x -> z``.
    """

    into_ball: IntoUnitBall

    @property
    def width(self) -> int:
        """Numbers of a mapped row."""
        return self.into_ball.width + 2

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map rows with a target from -1 to 1 after them, each on its own."""
        target = np.clip(rows[:, -1:], -1.0, 1.0)
        together = np.hstack([self.into_ball(rows[:, :-1]), np.ones_like(target), target])
        together[np.isnan(target[:, 0])] = 0.0
        return truncate_to_grid(together * ((1 - ROUNDING_MARGIN) / math.sqrt(3)), FINE_BITS)


class TargetMoments:
    """What noisy moments of ``[z; 1; t]`` say; everything in it is public.

    moments (d + 2, d + 2): Released sums.
    noise: Deviation of the noise on their diagonal; kept per record.
    """

    def __init__(self, moments: Array, noise: float) -> None:
        order = len(moments) - 2
        self.n_rows = max(float(moments[order, order]), 1.0)
        self.noise = noise / self.n_rows
        self.second = moments[:order, :order]  # sum of z zᵀ
        self.mean = np.clip(moments[order, :order] / self.n_rows, -1.0, 1.0)
        self.target = float(np.clip(moments[order, -1] / self.n_rows, -1.0, 1.0))
        self.covariance = self.second / self.n_rows - np.outer(self.mean, self.mean)
        self.joint = moments[:order, -1] / self.n_rows - self.mean * self.target
        variance = float(moments[-1, -1]) / self.n_rows - self.target**2
        # The deviation of t, not below what noise hides.
        self.spread = math.sqrt(min(max(variance, self.noise / 2, MIN_SPREAD**2), 1.0))

    def whitened(self) -> tuple[LinearRows, Array]:
        """Return the map of z to whitened rows; see `whitened_rows`.

        Their typical length comes from the trace. Too small a length makes steep lines of noise, so
        two deviations of the noise of the trace are the least that is believed.
        """
        least = 2 * self.noise * math.sqrt(len(self.mean))
        square = min(max(float(np.trace(self.second)) / self.n_rows, least), 1.0)
        return whitened_rows(self.second, self.noise * self.n_rows, self.n_rows, square)

    def correct(self, coef: Array, level: float) -> tuple[Array, float]:
        """Turn and lift a line by what the moments clearly show of its slope and mean.

        A robust line follows the middle of a skewed target. What noise alone would make of a
        correction is taken away from it.
        """

        def clear(found: float, noise: float) -> float:
            return found * max(0.0, 1 - CAUTION * noise**2 / max(found**2, 1e-300))

        length = float(coef @ coef)
        own = max(float(coef @ self.covariance @ coef), self.noise * length, 1e-12)
        turn = float(coef @ self.joint) - own
        turn = clear(turn, self.noise * math.sqrt(length / 2 + length**2)) / own
        coef = coef * min(max(1 + turn, 0.0), STEEPEST)
        lift = self.target - float(coef @ self.mean) - level
        return coef, level + clear(lift, self.noise * math.sqrt((1 + float(coef @ coef)) / 2))


@dataclass(eq=False, repr=False)
class PrivateLinearRegressor(PrivateRegressor):
    """``y(x) = coef.x + intercept``, a robust line with the mean of the target.

    Rows are whitened by ``sum [z; 1; t][z; 1; t]ᵀ + noise``, and the weights of Huber's loss are
    learned by noisy gradients, in spreads of the target; slope and level come from the matrix.

    Parameters
    ----------
    target_bounds : (float, float)
        Public range of the target; required. Targets are clipped to it, and a record whose target
        is missing adds nothing.
    n_steps : int, default=60
        Gradients that are released.
    max_gradient_norm : float, default=1.0
        Largest residual, in spreads of the target; larger ones count as this.
    $shared

    Attributes
    ----------
    coef_ : ndarray of shape (n_numbers,)
        Weight of each number of an encoded row, whose bounds are `row_bounds`: columns are scaled
        to their public ranges.
    intercept_ : float
        The constant.
    $guarantee

    Privacy
    -------
    Unit and relation : record, target included, or person; replace_one or add_or_remove_one.
    Released : one second moment with symmetric Gaussian noise, then `n_steps` noisy gradients.
    Sensitivity : √2 (replace) or 1 (add or remove): rows ``[z; 1; t] / √3`` lie in the unit ball.
        Of a gradient ``2 max_gradient_norm`` or `max_gradient_norm`.
    Guarantee : mu-GDP by the Gaussian mechanism, composed, hence (epsilon, delta).
    Assumptions and numerics : bounds and target range are public; sums are exact, noise is
        float-safe. Proof: docs/guarantees/regression.md.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import Bounds, PrivateLinearRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(20000, 2))
    >>> model = PrivateLinearRegressor(target_bounds=(-3, 3), bounds=Bounds(lower=-1.0, upper=1.0))
    >>> bool(model.fit(X, X[:, 0] - X[:, 1]).score(X, X[:, 0] - X[:, 1]) > 0.9)
    True
    """

    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None
    n_steps: int = 60
    max_gradient_norm: float = 1.0

    groups_rows: ClassVar[bool] = True
    answers_alone: ClassVar[bool] = True
    parameters: ClassVar[Form] = {
        "n_steps": whole(least=1),
        "max_gradient_norm": real(above=0.0, below=2.0),
    }
    learned: ClassVar[Form] = {
        "coef_": numbers("d"),
        "intercept_": real(),
    }

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        low, high = target_range(self)
        middle, half = (low + high) / 2, (high - low) / 2
        records, budget = self._begin(X, y, groups, target=(low, high, middle, half))
        bounds, width, n_steps = self.row_bounds, records.width - 1, int(self.n_steps)
        into_ball, clip = IntoUnitBall(bounds, width), float(self.max_gradient_norm)
        together = records.mapped(WithTarget(into_ball))  # [G1] unit ball
        moment = budget.gaussian(SecondMoment(together.width), MOMENT_SHARE)  # [G2] sensitivities
        per_person = PerPersonClip.default(records.person, clip)
        statistic = ResidualSum(clip, np.zeros((1, width + 1)), per_person)
        gradient = budget.gaussian(statistic, count=n_steps)
        budget.charge()  # charge, then draw

        # [G3] the first release
        found = TargetMoments(3 * budget.draw(moment, together), 3 * budget.noise(moment))
        white, spectrum = found.whitened()
        steepest = float(spectrum.max()) + white.height**2
        beside = BesideTarget(into_ball, True, found.target, found.spread)
        is_alone = records.person is None and records.has_exact_sums
        whitened = records.mapped(beside).mapped(BesideTarget(white, True))
        learned = whitened.cache(in_singles=is_alone)

        noise = budget.noise(gradient) / found.n_rows
        step = step_size(noise, n_steps, TARGET_NOISE, min(MAX_STEP / clip, 1 / steepest))
        descent = Descent((1, white.width), found.n_rows, n_steps, step)
        for _ in range(n_steps):
            at = ScoreWeights(descent.weights).rounded if is_alone else descent.weights
            here = ResidualSum(clip, at, per_person, RESIDUAL_BITS if is_alone else ROW_BITS)
            descent.follow(budget.draw(gradient, learned, here))  # [G4] a gradient
        weights = descent.average  # weights of z and a level, in units of t
        level = found.target + found.spread * float(weights[0, -1]) * white.height
        coef = found.spread * (white.weights_before @ weights[0, :-1])
        coef, level = found.correct(coef, level)
        centre, radius = bounds.ball(width)
        self.coef_ = coef * (half / radius)
        self.intercept_ = float(middle + half * level - self.coef_ @ centre)
        self.guarantee_ = budget.guarantee("range of the target")
        return self

    def predict(self, X: Any) -> Array:
        rows = self.row_bounds.clip(self._rows(X))  # exact, in two digits of a row
        width = self.n_features_in_
        centre, radius = self.row_bounds.ball(width)
        rows = (rows - centre) / radius
        high, weights = truncate_to_grid(rows, FINE_BITS), self.coef_ * radius
        low = truncate_to_grid((rows - high) * 2.0**FINE_BITS, FINE_BITS)
        both = np.concatenate([weights, weights * 2.0**-FINE_BITS])[None]
        found = exact_product(np.hstack([high, low]), both, math.sqrt(1 + width))[:, 0]
        found += float(self.coef_ @ centre) + self.intercept_
        return np.asarray(np.clip(found, *target_range(self)))
