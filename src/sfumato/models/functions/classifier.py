"""The private kernel classifier."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from sfumato.core.constraints import Form, check_n_scores, labels, one_of
from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.machines import STORED_MACHINE, PrivateKernelMachine
from sfumato.models.objectives.certified import VectorLoss, minimise, minimise_jointly
from sfumato.models.objectives.feature_rows import FeatureRows
from sfumato.models.objectives.score_losses import (
    HuberHingeLoss,
    LogisticLoss,
    ScoreLoss,
    ScoreSoftmaxLoss,
    SmoothMaxHingeLoss,
)
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import checked_column
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

BINARY: dict[str, ScoreLoss] = {
    "hinge": HuberHingeLoss(band=0.02),
    "huber": HuberHingeLoss(),
    "logistic": LogisticLoss(),
}
JOINT: dict[str, VectorLoss] = {"huber": SmoothMaxHingeLoss(), "logistic": ScoreSoftmaxLoss()}


def _has_probabilities(model: Any) -> bool:
    return bool(model.loss == "logistic")


class PrivateKernelClassifier(ClassifierMixin, PrivateKernelMachine):
    r"""``sign f``, ``f = argmin_g (1/n) sum loss(y_i g(x_i)) + λ ||g||²``, f released with noise.

    Parameters
    ----------
    loss : {"huber", "hinge", "logistic"}, default="huber"
        An admissible loss: convex, Lipschitz in the score. "hinge" is the hinge with its kink
        rounded between margins 0.98 and 1.02, "huber" between 0.5 and 1.5. More than two classes
        share one loss of all their scores ("huber", "logistic": noise does not grow with their
        number) or are learned one against the rest ("hinge": noise grows with the root of their
        number).
    bandwidth : float or array-like, optional
        Width h of the Gaussian kernel, one for all features, one per feature, or a matrix H; by
        default half the radius of the bounds.
    regularization : float, optional
        Strength λ. By default a public rule: the λ at which the noise of a score has standard
        deviation 0.3, between 1e-4 and 1.
    n_fourier : int, default=1024
        Public random Fourier features, used where exact features of the kernel would be more
        than 2048 (in more than two dimensions, mostly). The machine is then learned and
        released in the space of these features, where every bound is exact.
    tolerance : float, default=0.01
        Share of the sensitivity that is paid for the solver, which stops at a certified gap; at
        least 0.001.
    expected_rows : int, optional
        A public number by which the loss is divided under "add_or_remove_one", where the number
        of rows is secret.
    random_state : int, RandomState or None, default=0
        For the public frequencies only.
    epsilon, delta : float, default=1.0, 1e-6
        The budget. ``epsilon=inf`` gives the machine without noise.
    unit : {"record"}, default="record"
        One whole row with its label is protected.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        Public bounds of the rows and the label set; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    features_ : dict
        The public feature map.
    coefficients_ : ndarray of shape (n_features_of_the_map, n_functions)
        What was released: one function for two classes, else one per class.
    regularization_ : float
        λ.
    noise_std_ : float
        Standard deviation of the noise of one score (at most, and nearly so everywhere).
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Privacy
    -------
    Unit and relation : record, label included; replace_one or add_or_remove_one.
    Released : the minimiser as a vector of public features, with Gaussian noise.
    Sensitivity : ``M / (λ n)`` (replace; half of it for add or remove) in the norm of the space,
        M = 1 for two classes, √2 or √C for C, enlarged by `tolerance` for the certified gap.
    Guarantee : mu-GDP by the Gaussian process mechanism, hence (epsilon, delta).
    Assumptions and numerics : bounds and label set are public; there is no unregularised
        intercept; the solver reaches its gap, by a theorem. Proof:
        docs/guarantees/kernel-machines.md.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sfumato import Bounds
    >>> from sfumato.models.functions import PrivateKernelClassifier
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> bounds = Bounds(lower=[-1.5, -1.0], upper=[2.5, 1.5], labels=[0, 1])
    >>> model = PrivateKernelClassifier(bandwidth=0.5, delta=1e-5, bounds=bounds).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    aimed_noise = 0.3

    stored_form: ClassVar[Form] = {
        **STORED_MACHINE,
        "classes_": labels("c"),
        "loss": one_of(*BINARY),
    }

    def __init__(
        self,
        loss: str = "huber",
        *,
        bandwidth: Any = None,
        regularization: float | None = None,
        n_fourier: int = 1024,
        tolerance: float = 0.01,
        expected_rows: int | None = None,
        random_state: Any = 0,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        bounds: Bounds | TableBounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.loss = loss
        self.bandwidth = bandwidth
        self.regularization = regularization
        self.n_fourier = n_fourier
        self.tolerance = tolerance
        self.expected_rows = expected_rows
        self.random_state = random_state
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the machine to a certified gap and release it once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._validate_privacy_params()
        self._check_choices()
        if self.loss not in BINARY:
            raise InvalidInputError(
                f"'loss' must be one of {sorted(BINARY)}. Got {self.loss!r} instead."
            )
        rows = self._check_rows(X)
        codes, self.classes_ = bounds.clip_labels(
            checked_column(self, self._target(X, y), len(rows))
        )
        if len(self.classes_) < 2:
            raise InvalidInputError(
                "The label set has only one class; a classifier needs at least two."
            )
        self._warn_if_weak(len(rows))

        mapped = self._map_rows(rows, bounds)  # [K1] public features, ||phi(x)|| <= 1
        n_rows, lipschitz = self._public_count(len(rows)), self._lipschitz()
        self.regularization_ = self._public_regularization(n_rows, lipschitz)
        self._require_resolution(n_rows, self._loss().smoothness)
        mechanism, gap = self._mechanism(n_rows, lipschitz)  # [K2] sensitivity with the gap in it
        mechanism.for_size(mapped.shape[1] * len(self.classes_))  # refused before the charge
        machine = self._minimise(mapped, codes, gap, n_rows)  # [K3] certified to the gap
        receipt = self._charge(mechanism)  # [K4] charge, then draw
        self.coefficients_ = mechanism.release(machine, ledger=receipt)

        self.noise_std_ = math.sqrt(mechanism.variance())
        self.guarantee_ = self._guarantee(receipt)
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        check_n_scores(sizes)

    def _loss(self) -> ScoreLoss | VectorLoss:
        return (BINARY if len(self.classes_) == 2 else BINARY | JOINT)[self.loss]

    def _lipschitz(self) -> float:
        one_against_the_rest = len(self.classes_) > 2 and self.loss not in JOINT
        return math.sqrt(len(self.classes_)) if one_against_the_rest else self._loss().lipschitz

    def _minimise(
        self, mapped: FeatureRows, codes: NDArray[np.intp], gap: float, n_rows: int
    ) -> Array:
        """Return the coefficients, one column a function; their gaps together keep `gap`."""
        settings: dict[str, Any] = {"regularization": self.regularization_, "n_rows": n_rows}
        n_classes = len(self.classes_)
        if n_classes > 2 and self.loss in JOINT:
            found = minimise_jointly(
                mapped, codes, n_classes, JOINT[self.loss], tolerance=gap, **settings
            )
            return found.coefficients
        positive = [1] if n_classes == 2 else range(n_classes)
        columns = [
            minimise(
                mapped,
                np.where(codes == c, 1.0, -1.0),
                BINARY[self.loss],
                tolerance=gap / len(positive),
                **settings,
            ).coefficients
            for c in positive
        ]
        return np.stack(columns, axis=1)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the released scores: one per row for two classes, else one per class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores; the second shape for more than two classes.
        """
        scores = self._scores(X)
        return np.asarray(scores[:, 0]) if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._scores(X)
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each label; for the logistic loss."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            upper = expit(scores[:, 0])
            return np.stack([1 - upper, upper], axis=1)
        return np.asarray(softmax(scores, axis=1))
