"""The private additive classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.constraints import Form, check_n_scores, known_bounds, labels, real
from sfumato.exceptions import InvalidInputError
from sfumato.models.additive.base import FEWER_PASSES, STORED_SCORES, AdditiveModel
from sfumato.models.additive.fit import fit_scores
from sfumato.models.additive.plan import AdditivePlan, Shares
from sfumato.models.additive.predictions import LinearPredictions, check_steps
from sfumato.models.additive.probabilities import release_probabilities, score_table
from sfumato.privacy.guarantee import Guarantee
from sfumato.sums.gradients import GradientSum
from sfumato.sums.losses import SoftmaxLoss
from sfumato.sums.persons import PerPersonClip
from sfumato.sums.records import Records
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import checked_column, is_out_of_core

Array = NDArray[np.float64]

# Of the Gaussian part of mu².
MOMENT_SHARE, COUNT_SHARE, PROBABILITY_SHARE = 0.3, 1e-3, 0.02
SCORE_NOISE = 1.6  # as for the linear classifier


class PrivateAdditiveClassifier(LinearPredictions, AdditiveModel):
    """``score_c(x) = b_c + sum_j f_cj(x_j)``: one private curve per column and class.

    The curve of a column of numbers is piecewise linear between knots, placed at privately
    released quantiles; that of a column of categories has one value per category, and a missing
    cell has a value of its own. All classes are learned jointly by softmax; two classes share one
    score.

    Parameters
    ----------
    n_knots : int, optional
        Knots per column of numbers, its two public ends included: 3, 5, 9, 17, 33 or 65. By
        default 9 where they are private and 5 where they are public.
    knots : {"private", "public"} or None, default=None
        Where the knots are: at released quantiles, or at public places of the range, which costs
        nothing (even ones, or their squares where the range has no negative numbers). None: public
        where the number of rows, public, expected or released, is too small for quantiles.
    interactions : bool, optional
        Whether pairs of columns add something together: one weight for the product of their
        places. None: where the number of rows, public, expected or released, is large enough for
        the number of pairs; at most 16 columns are paired, those in which classes differ most.
    class_weight : {"balanced"}, mapping or None, default=None
        "balanced" weighs classes inversely to their released sizes; a mapping gives public weights
        by label.
    largest_weight : float, default=20.0
        Public bound on the ratio of two balanced weights.
    n_steps : int, default=240
        Noisy gradients.
    max_gradient_norm : float, default=0.1
        Largest length of a row's gradient; longer ones are shortened.
    expected_rows : int, optional
        A public number of rows, for the rule on knots. Without it a secret number is released
        first, with a thousandth of the budget.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole fit. ``epsilon=inf`` gives no noise and no privacy.
    unit : {"record", "person"}, default="record"
        One whole row with its label is protected, or all rows of a person.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds or TableBounds
        Public range or categories of each column, and the label set; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    knots_ : ndarray of shape (n_numeric_columns, n_knots)
        Knots as places in the public ranges, from 0 to 1.
    coef_ : ndarray of shape (1 or n_classes, n_hats)
        Value of each curve at each knot or category; see `get_feature_names_out`.
    intercept_ : ndarray of shape (1 or n_classes,)
        The constant.
    counts_ : ndarray of shape (n_classes,)
        Released class sizes; equal parts of the public number of rows where none were needed.
    noise_factor_ : ndarray of shape (n_hats, n_hats)
        B, where ``B Bᵀ`` bounds the covariance of the noise in a row of `coef_`.
    hat_means_, hat_covariance_ : ndarray
        Released means and covariances of the hats.
    pairs_, pair_coef_ : ndarray of shape (n_pairs, 2), (n_scores, n_pairs)
        Places of the columns of each pair, and the weight of their product.
    orders_ : ndarray of shape (n_hats,)
        The place of each knot or category, from -1 to 1, of which products are made.
    pair_means_, pair_deviations_, pair_noise_ : ndarray
        Released means and deviations of the products, and the factor of the noise of their weights.
    score_factor_ : float
        By what the scores of the descent were multiplied, so that their softmax is a probability.
    feature_names_in_ : ndarray of str
        Names of the columns, public, where a table was given.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : cuts of each column of numbers, class sizes and sums of the hats of each class where
        they are needed, the second moment of the hats and products, `n_steps` gradients, and
        counts of scores by label.
    Sensitivity : a record is counted once per column; hats have length 1 at most, so the second
        moment moves by √2 (replace) or 1 (add or remove), a gradient by ``2 max_gradient_norm``
        or `max_gradient_norm`.
    Guarantee : cuts have bounded range, all else is Gaussian; composed by loss distributions.
    Assumptions and numerics : bounds and label set are public, and where the number of rows is
        secret, that there are at most 2**26 of them. Sums are exact, noise is float-safe. Proofs:
        docs/guarantees/additive.md and knots.md.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sfumato import Bounds, PrivateAdditiveClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=X.max(axis=0) * 1.1, labels=[0, 1])
    >>> model = PrivateAdditiveClassifier(epsilon=2.0, delta=1e-5, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    loss: ClassVar[str] = "softmax"  # type: ignore[misc]

    guarantee_: Guarantee
    score_factor_: float

    stored_form: ClassVar[Form] = {
        "bounds": known_bounds,
        "classes_": labels("c"),
        **STORED_SCORES,
        "score_factor_": real(least=0.0),
    }

    def __init__(
        self,
        *,
        n_knots: int | None = None,
        knots: str | None = None,
        interactions: bool | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        largest_weight: float = 20.0,
        n_steps: int = 240,
        max_gradient_norm: float = 0.1,
        expected_rows: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | Any = None,
        ledger: Any = None,
    ) -> None:
        self.n_knots = n_knots
        self.knots = knots
        self.interactions = interactions
        self.class_weight = class_weight
        self.largest_weight = largest_weight
        self.n_steps = n_steps
        self.max_gradient_norm = max_gradient_norm
        self.expected_rows = expected_rows
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(
        self, X: ArrayLike | Records, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn private curves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), table, or Records
            Rows; records bring their labels along.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), optional
            IDs of persons, for unit "person"; rows without one are dropped.

        Returns
        -------
        Self
            The fitted estimator.
        """
        records, plan = self.plan(X, y, groups)
        loss = SoftmaxLoss(len(self.classes_))
        limit = min(self.max_gradient_norm, loss.slope_bound)

        def gradient(weights: Array, counts: Array) -> GradientSum:
            return GradientSum(
                loss,
                limit,
                weights,
                self._class_weights(counts),
                PerPersonClip.usual(records.person, limit),
            )

        self._warn_of_passes(records, int(self.n_steps), FEWER_PASSES)
        receipt = self._charge(*plan.mechanisms())  # everything charged, then drawn
        scores = fit_scores(
            records,
            plan,
            gradient,
            receipt,
            n_scores=loss.n_scores,
            score_noise=SCORE_NOISE,
            curvature=loss.max_curvature,
        )
        weights = self._class_weights(scores.counts)
        factor, shift = release_probabilities(records, scores, plan, receipt, weights)
        self._keep(scores)  # no row is read from here on
        self._scale(factor)
        self.intercept_ = self.intercept_ + shift
        self.score_factor_ = factor
        self.guarantee_ = self._guarantee(receipt)
        return self

    def plan(
        self, X: ArrayLike | Records, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> tuple[Records, AdditivePlan]:
        """Check everything that a fit would refuse, and divide its budget; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), table, or Records
            As for `fit`.
        y : array-like of shape (n_samples,)
            As for `fit`.
        groups : array-like of shape (n_samples,), optional
            As for `fit`.

        Returns
        -------
        tuple of Records and AdditivePlan
            The records, and the releases of a fit.
        """
        bounds = self._check_bounds()
        self._check_settings()
        records, self.classes_ = self._labelled_records(X, y, bounds, groups)
        columns = self._public_columns()
        if isinstance(self.class_weight, Mapping):
            self._given_weights()
        loss = SoftmaxLoss(len(self.classes_))
        counted = records.public_rows is None or self.class_weight == "balanced"
        rule = self._knot_rule(records.public_rows, len(columns.numeric))
        pairs = self._pair_rule(records.public_rows, len(columns))
        width = columns.width(2**rule.max_levels + 1) + pairs.most + 1
        limit = min(self.max_gradient_norm, loss.slope_bound)
        return records, AdditivePlan.of(
            records,
            columns,
            GradientSum(
                loss,
                limit,
                np.zeros((loss.n_scores, width)),
                joined=PerPersonClip.usual(records.person, limit),
            ),
            Shares(rule.share, MOMENT_SHARE, COUNT_SHARE if counted else 0.0, PROBABILITY_SHARE),
            cut=columns.numeric if rule.share else (),
            knots=rule,
            pairs=pairs,
            n_classes=loss.n_classes,
            n_steps=int(self.n_steps),
            last_look=score_table(loss.n_classes),
            epsilon=float(self.epsilon),
            delta=float(self.delta),
        )

    def _labelled_records(
        self, X: ArrayLike | Records, y: ArrayLike | None, bounds: Bounds, groups: Any
    ) -> tuple[Records, NDArray[Any]]:
        records: Records
        if isinstance(X, Records) and not is_out_of_core(X):
            records, classes = self._records(X, None, bounds)
            records = records.group_by_person()  # rows of a person are bounded together
        else:
            records, classes = self._read(self._labelled_cells, X, y, groups)
        if len(classes) < 2:
            raise InvalidInputError(
                "The label set has only one class; a classifier needs at least two."
            )
        return records, classes

    def _labelled_cells(self, X: Any, y: Any) -> tuple[Array, NDArray[np.intp], NDArray[Any]]:
        """Return cells, the numbers of their labels and the label set."""
        cells = self._cells(X, reset=True)
        return cells, *self._check_bounds().clip_labels(checked_column(self, y, len(cells)))

    def _check_settings(self) -> None:
        check_steps(self.n_steps, self.max_gradient_norm)
        if not (self.class_weight in ("balanced", None) or isinstance(self.class_weight, Mapping)):
            raise InvalidInputError(
                "'class_weight' must be 'balanced', None, or public weights by label. "
                f"Got {self.class_weight!r}."
            )
        if not self.largest_weight >= 1:
            raise InvalidInputError(
                f"'largest_weight' must be at least 1. Got {self.largest_weight!r}."
            )

    def _class_weights(self, counts: Array) -> tuple[float, ...] | None:
        """Weights of classes, public or from released counts, the largest of them 1."""
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, Mapping):
            return tuple(self._given_weights().tolist())
        inverse = 1 / np.maximum(counts, 1.0)
        return tuple(np.maximum(inverse / inverse.max(), 1 / self.largest_weight).tolist())

    def _given_weights(self) -> Array:
        assert isinstance(self.class_weight, Mapping)  # noqa: S101 - for the type checker
        given = [self.class_weight.get(label, 1.0) for label in self.classes_.tolist()]
        if not (all(weight >= 0 for weight in given) and 0 < max(given) < np.inf):
            raise InvalidInputError("Weights of classes must be finite and not negative.")
        return np.array(given) / max(given)

    @property
    def _score_names(self) -> tuple[str, ...]:
        listed = self.classes_.tolist()
        shown = listed[1:] if len(listed) == 2 else listed  # two classes share the second's score
        return tuple(f"the score of {label!r}" for label in shown)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        check_n_scores(sizes)
        self._check_stored_scores()

    def _scores(self, X: ArrayLike) -> Array:
        return self._additive_scores(X)
