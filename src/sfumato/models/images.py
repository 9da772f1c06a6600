"""A private classifier of images: public features, then the private linear classifier."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import is_foreign_array, like, namespace_of
from sfumato.core.constraints import Form, labels, listed, model_of, numbers, refuse
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.image_features import (
    HOGFeatures,
    RandomPatchFeatures,
    RandomProcessFeatures,
    ScatteringFeatures,
)
from sfumato.models.image_features.images import ImageFeatures, image_shape_for
from sfumato.models.linear import PrivateLinearClassifier
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import checked_rows

IMAGE_FEATURES = ("best", "scattering", "hog")
# Chosen on held-out training rows of CIFAR-10: how many numbers of a random projection of each kind
# are kept, and the weights of the kinds beside each other.
SCATTERED, PATCHED, BY_THE_NET = (2000, 1.0), (2500, 1.5), (3000, 2.0)
# Beside what the classifier asks of it.
FOREIGN_IMAGES = "the array library computes the same features of an image alone each time"

Parts = list[tuple[ImageFeatures, float]]


class PrivateImageClassifier(ClassifierMixin, BaseEstimator):
    """A `PrivateLinearClassifier` with its defaults, of public features of images.

    Parameters
    ----------
    image_features : {"best", "scattering", "hog"} or ImageFeatures, default="best"
        Which features. "best" are those of the published figures on colour images:
        2,000 numbers of `ScatteringFeatures` of an image and its mirror image, 2,500 of
        `RandomPatchFeatures` with weight 1.5 and 3,000 of `RandomProcessFeatures` with weight 2
        beside each other. Without a GPU they take a sixth of a second per image, and the fit
        minutes; "hog" is the fastest.
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels); without it, the squarest grey image. Not
        used with an ImageFeatures, which has its own.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the fit.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    bounds : Bounds
        The public range of the pixels and the label set, say
        ``Bounds(lower=0, upper=255, labels=range(10))``; required.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The public label set, sorted.
    features_ : list of ImageFeatures
        The public features, beside each other.
    kind_weights_ : ndarray of shape (n_kinds,)
        By what each kind is multiplied; their squares add up to 1.
    classifier_ : PrivateLinearClassifier
        The private classifier of the features.
    guarantee_ : Guarantee
        What is promised: that of `classifier_`.

    Privacy
    -------
    Unit and relation : record, an image with its label; replace_one or add_or_remove_one.
    Released : what `PrivateLinearClassifier` releases of the features.
    Sensitivity : that of `PrivateLinearClassifier`; features of an image depend on that image
        alone, to the bit, and have length 1 at most by construction.
    Guarantee : that of `PrivateLinearClassifier`.
    Assumptions and numerics : the label set, the range of pixels and the shape of images are
        public. With tensors of another library the promise is conditional: it must compute the
        same features of an image each time; on an accelerator a fit takes each image alone, as
        batches were found to change last bits. Proofs: docs/guarantees/linear-classifier.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateImageClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0, upper=16, labels=range(10))
    >>> model = PrivateImageClassifier("hog", epsilon=8.0, delta=1e-5, bounds=bounds)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    unit: ClassVar[Unit] = Unit.RECORD
    guarantee_: Guarantee

    stored_form: ClassVar[Form] = {
        "classes_": labels("c"),
        "features_": listed(
            model_of(
                "HOGFeatures",
                "RandomPatchFeatures",
                "RandomProcessFeatures",
                "ScatteringFeatures",
            ),
            size="p",
        ),
        "kind_weights_": numbers("p"),
        "classifier_": model_of("PrivateLinearClassifier", classes_="c"),
    }

    def __init__(
        self,
        image_features: str | ImageFeatures = "best",
        *,
        image_shape: tuple[int, ...] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        relation: str = "replace_one",
        bounds: Bounds | None = None,
        ledger: Any = None,
    ) -> None:
        self.image_features = image_features
        self.image_shape = image_shape
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self.bounds = bounds
        self.ledger = ledger

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such an image is blank
        tags.non_deterministic = True
        tags.classifier_tags.poor_score = True  # on rows of a few numbers, which are no images
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Compute features image by image and learn private weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows, channel values of a pixel side by side.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        bounds = self._checked_bounds()
        pixels = self._pixels(X, reset=True)
        parts = self._parts(int(pixels.shape[1]))
        self.features_ = [part.fit(pixels) for part, _ in parts]
        self.kind_weights_ = np.array([weight for _, weight in parts])
        classifier = PrivateLinearClassifier(
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            bounds=Bounds(norm=1.0, labels=bounds.labels),
            ledger=self.ledger,
        )
        classifier.fit(self._described(pixels, alone=True), y)
        self.classifier_ = classifier.set_params(ledger=None)
        self.classes_, self.guarantee_ = classifier.classes_, classifier.guarantee_
        if is_foreign_array(pixels):
            self.guarantee_ = self.guarantee_.only_if(FOREIGN_IMAGES)
        return self

    @property
    def array_bounds(self) -> Bounds | None:
        """The bounds of pixels, for contracts that make rows within them."""
        return self.bounds

    def _checked_bounds(self) -> Bounds:
        if not isinstance(self.bounds, Bounds) or self.bounds.lower is None:
            raise MissingBoundsError(
                "PrivateImageClassifier needs the public range of the pixels and the label set, "
                "which are never learned from data: bounds=Bounds(lower=0, upper=255, labels=...)."
            )
        return self.bounds

    def _pixels(self, X: Any, *, reset: bool) -> Any:
        """Scale pixels from their public range to [0, 1]; a missing one stays missing."""
        if is_foreign_array(X):
            xp = namespace_of(X)
            rows = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float32)
            if reset:
                self.n_features_in_ = int(X.shape[-1])
        else:
            is_secret = Relation(self.relation) is Relation.ADD_OR_REMOVE_ONE
            rows = checked_rows(self, X, reset=reset, may_be_empty=is_secret or not reset)
            if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.uint8):
                rows = rows.astype(np.float32)
        box = self._checked_bounds().box(int(rows.shape[1]))
        xp = namespace_of(rows)
        low, high = (xp.astype(like(rows, corner), rows.dtype) for corner in box or ())
        wide = xp.where(high > low, high - low, xp.ones_like(low))
        inside = xp.clip(rows, low, high)  # first, so that no number overflows
        return xp.clip((inside - low) / wide, 0.0, 1.0)

    def _parts(self, n_pixels: int) -> Parts:
        """Return the kinds of features and their weights."""
        if isinstance(self.image_features, ImageFeatures):
            return [(clone(self.image_features), 1.0)]
        if self.image_features not in IMAGE_FEATURES:
            allowed = ", ".join(map(repr, IMAGE_FEATURES))
            raise InvalidInputError(
                f"'image_features' must be one of {allowed}, or an ImageFeatures. "
                f"Got {self.image_features!r}."
            )
        shape = image_shape_for(self.image_shape, n_pixels)
        if self.image_features == "hog":
            return [(HOGFeatures(shape), 1.0)]
        if self.image_features == "scattering":
            return [(ScatteringFeatures(shape), 1.0)]
        return best_features(shape)

    def _described(self, pixels: Any, *, alone: bool = False) -> Any:
        """Return rows of features, at most 1 long; `alone`, no image changes another's bits."""
        found = []
        for part, weight in zip(self.features_, self.kind_weights_, strict=True):
            describe = part.transform_alone if alone else part.transform
            found.append(describe(pixels) * float(weight))
        return namespace_of(pixels).concat(found, axis=1)

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if any(part.n_features_in_ != sizes["d"] for part in self.features_):
            raise refuse("features_", "features of the images")
        if self.classifier_.n_features_in_ != sum(part.n_features_out_ for part in self.features_):
            raise refuse("classifier_", "a classifier of the features")

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each image.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict(rows))

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each label.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        rows = self._queries(X)
        return np.asarray(self.classifier_.predict_proba(rows))

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the scores of each class; for two classes, the score of the second.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Scores.
        """
        rows = self._queries(X)
        return np.asarray(self.classifier_.decision_function(rows))

    def _queries(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        return self._described(self._pixels(X, reset=False))


def best_features(shape: tuple[int, ...]) -> Parts:
    """Return the kinds of features "best" and their weights, whose squares add up to 1."""
    n_scattered = min(SCATTERED[0], ScatteringFeatures(shape).count(shape))
    kinds = [
        (ScatteringFeatures(shape, mirror="average", n_projected=n_scattered), SCATTERED[1]),
        (RandomPatchFeatures(shape, n_projected=PATCHED[0]), PATCHED[1]),
        (RandomProcessFeatures(shape, n_projected=BY_THE_NET[0]), BY_THE_NET[1]),
    ]
    length = math.hypot(*(weight for _, weight in kinds))
    return [(kind, weight / length) for kind, weight in kinds]
