"""A private classifier of images: public features, then the private linear classifier."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import is_foreign_array, like, namespace_of
from sfumato.core.constraints import Form, check_parameters, list_of, model_of, numbers, refuse
from sfumato.exceptions import MissingBoundsError
from sfumato.models.base import Array, PrivateClassifier
from sfumato.models.generated_features import RandomPatchFeatures, RandomProcessFeatures
from sfumato.models.image_features import (
    HOGFeatures,
    ImageFeatures,
    ScatteringFeatures,
    image_shape_for,
)
from sfumato.models.linear import PrivateLinearClassifier
from sfumato.tables.bounds import Bounds
from sfumato.tables.cells import checked_rows

IMAGE_FEATURES = ("best", "scattering", "hog")
# Chosen on held-out training rows of CIFAR-10: how many numbers of a random projection of each kind
# are kept, and the weights of the kinds.
SCATTERED, PATCHED, BY_THE_NET = (2000, 1.0), (2500, 1.5), (3000, 2.0)
# In addition to what the classifier asks for.
FOREIGN_IMAGES = "the array library chooses how to compute by the shape of an array alone"


def known_features(value: Any, place: str, sizes: dict[str, int]) -> None:  # noqa: ARG001
    """Ask for features of images, or for their name."""
    if not isinstance(value, ImageFeatures) and value not in IMAGE_FEATURES:
        names = ", ".join(map(repr, IMAGE_FEATURES))
        raise refuse(place, f"one of {names}, or an ImageFeatures")


def best_features(shape: tuple[int, int, int]) -> list[tuple[ImageFeatures, float]]:
    """Return the kinds of features "best" and their weights, whose squares add up to 1."""
    n_scattered = min(SCATTERED[0], 81 * -(-shape[0] // 4) * -(-shape[1] // 4) * shape[2])
    kinds = [
        (ScatteringFeatures(shape, mirror="average", n_projected=n_scattered), SCATTERED[1]),
        (RandomPatchFeatures(shape, n_projected=PATCHED[0]), PATCHED[1]),
        (RandomProcessFeatures(shape, n_projected=BY_THE_NET[0]), BY_THE_NET[1]),
    ]
    length = math.hypot(*(weight for _, weight in kinds))
    return [(kind, weight / length) for kind, weight in kinds]


@dataclass(eq=False, repr=False)
class PrivateImageClassifier(PrivateClassifier):
    """A `PrivateLinearClassifier` with its defaults, of public features of images.

    Parameters
    ----------
    image_features : {"best", "scattering", "hog"} or ImageFeatures, default="best"
        Which features. "best" are those of the published figures on colour images:
        2,000 numbers of `ScatteringFeatures` of an image and its mirror image, 2,500 of
        `RandomPatchFeatures` with weight 1.5 and 3,000 of `RandomProcessFeatures` with weight 2,
        concatenated. Without a GPU they take a sixth of a second per image, and the fit
        minutes; "hog" is the fastest.
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels); without it, the squarest grey image. Not
        used with an ImageFeatures, which has its own.
    $shared
        The bounds are the public range of the pixels and the label set, say
        ``Bounds(lower=0, upper=255, labels=range(10))``.

    Attributes
    ----------
    $classes
    features_ : list of ImageFeatures
        The public features, which are concatenated.
    kind_weights_ : ndarray of shape (n_kinds,)
        By what each kind is multiplied; their squares add up to 1.
    classifier_ : PrivateLinearClassifier
        The private classifier of the features.
    guarantee_ : Guarantee
        What is promised: that of `classifier_`.

    Privacy
    -------
    Unit and relation : an image with its label, or a person's; replace_one or add_or_remove_one.
    Released : what `PrivateLinearClassifier` releases of the features.
    Sensitivity : that of `PrivateLinearClassifier`; features of an image depend on that image
        alone, to the bit, and have length 1 at most by construction.
    Guarantee : that of `PrivateLinearClassifier`.
    Assumptions and numerics : the label set, the range of pixels and the shape of images are
        public. With tensors of another library the promise is conditional: it must choose how to
        compute by the shape of an array alone. On an accelerator images go in blocks of one size,
        in which moving public images has changed no bit; where none is found, one by one.
        Proofs: docs/guarantees/linear-classifier.md.

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

    image_features: str | ImageFeatures = "best"
    _: KW_ONLY
    image_shape: tuple[int, ...] | None = None

    needs_memory: ClassVar[bool] = True
    parameters: ClassVar[Form] = {"image_features": known_features}
    learned: ClassVar[Form] = {
        **PrivateClassifier.learned,
        "features_": list_of(
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on rows of a few numbers, which are no images
        return tags

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        self.__dict__.pop("guarantee_", None)  # of an earlier fit: this one may fail
        check_parameters(self, self.parameters)
        pixels = self._pixels(X, reset=True)
        shape = image_shape_for(
            None if isinstance(self.image_features, ImageFeatures) else self.image_shape,
            int(pixels.shape[1]),
        )
        if isinstance(self.image_features, ImageFeatures):
            parts = [(clone(self.image_features), 1.0)]
        elif self.image_features == "best":
            parts = best_features(shape)
        else:
            kinds = {"hog": HOGFeatures, "scattering": ScatteringFeatures}
            parts = [(kinds[self.image_features](shape), 1.0)]
        self.features_ = [part.fit(pixels) for part, _ in parts]
        self.kind_weights_ = np.array([weight for _, weight in parts])
        classifier = PrivateLinearClassifier(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=str(self.protected_unit),
            relation=self.relation,
            bounds=replace(self._pixel_bounds(), lower=None, upper=None, norm=1.0),
            ledger=self.ledger,
        )
        classifier.fit(self._weighted_features(pixels), y, groups)
        self.classifier_ = classifier.set_params(ledger=None)
        self.classes_, self.guarantee_ = classifier.classes_, classifier.guarantee_
        if is_foreign_array(pixels):
            self.guarantee_ = self.guarantee_.only_if(FOREIGN_IMAGES)
        return self

    def _pixel_bounds(self) -> Bounds:
        if not isinstance(self.bounds, Bounds) or self.bounds.lower is None:
            raise MissingBoundsError(
                "PrivateImageClassifier needs the public range of the pixels and the label set, "
                "which are never learned from data: bounds=Bounds(lower=0, upper=255, labels=...)."
            )
        return self.bounds

    def _pixels(self, X: Any, *, reset: bool) -> Any:
        """Scale pixels from their public range to [0, 1]; a missing one stays missing."""
        bounds = self._pixel_bounds()
        if is_foreign_array(X):
            xp = namespace_of(X)
            rows = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float32)
            if reset:
                self.n_features_in_ = int(X.shape[-1])
        else:
            may_be_empty = self._n_is_secret or not reset
            rows = checked_rows(self, X, reset=reset, may_be_empty=may_be_empty)
            if isinstance(X, np.ndarray) and X.dtype in (np.float32, np.uint8):
                rows = rows.astype(np.float32)
        box = bounds.box(int(rows.shape[1]))
        xp = namespace_of(rows)
        low, high = (xp.astype(like(rows, corner), rows.dtype) for corner in box or ())
        wide = xp.where(high > low, high - low, xp.ones_like(low))
        inside = xp.clip(rows, low, high)  # first, so that no number overflows
        return xp.clip((inside - low) / wide, 0.0, 1.0)

    def _weighted_features(self, pixels: Any) -> Any:
        """Return rows of features, at most 1 long."""
        weighted = zip(self.features_, self.kind_weights_, strict=True)
        found = [part.transform(pixels) * float(weight) for part, weight in weighted]
        return namespace_of(pixels).concat(found, axis=1)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._weighted_features(self._pixels(X, reset=False))

    def _scores(self, rows: Any) -> Array:
        scores = np.asarray(self.classifier_.decision_function(rows))
        return scores[:, None] if scores.ndim == 1 else scores

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if any(part.n_features_in_ != sizes["d"] for part in self.features_):
            raise refuse("features_", "features of the images")
        if self.classifier_.n_features_in_ != sum(part.n_features_out_ for part in self.features_):
            raise refuse("classifier_", "a classifier of the features")
