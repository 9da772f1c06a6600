"""Rows as images: what the image features share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.exceptions import InvalidInputError
from sfumato.kernels.arrays import Array, is_accelerated, is_foreign, namespace_of

__all__ = ["ImageFeatures", "square_root", "unit_length"]

FLOATS = (np.float64, np.float32)
# Images at a time: the arrays in between stay in the cache of a processor, or fill a GPU.
BLOCK = 64
ACCELERATED_BLOCK = 4096


class ImageFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the image features; not meant to be used by itself.

    A subclass writes `_describe`, which maps a stack of images ``(n, height, width, channels)`` to
    features, image by image. Nothing is learned from data, so nothing is to be paid for.
    """

    image_shape: tuple[int, ...] | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A missing number touches its own row only; an error would tell that it is there.
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        return tags

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002 - the contract's y
        """Note the shape of the images; no value is read.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows, channel values of a pixel side by side.
        y : object, optional
            Not used.
        """
        rows = self._rows(X, reset=True)
        self.image_shape_ = image_shape_for(self.image_shape, rows.shape[1])
        blank = namespace_of(rows).zeros_like(rows[:1, :])
        self.n_features_out_ = int(self._describe(self._images(blank)).shape[1])
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_out_)

    def transform(self, X: ArrayLike) -> Array:
        """Give the features, each row of length 1 at most.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        size = ACCELERATED_BLOCK if is_accelerated(rows) else BLOCK
        parts = [
            self._describe(self._images(rows[start : min(start + size, rows.shape[0]), :]))
            for start in range(0, rows.shape[0], size)
        ]
        return namespace_of(rows).concat(parts, axis=0)

    def _images(self, rows: Array) -> Array:
        return namespace_of(rows).reshape(rows, (rows.shape[0], *self.image_shape_))

    @abstractmethod
    def _describe(self, images: Array) -> Array:
        """Give the features of each image."""

    def _rows(self, X: Any, *, reset: bool) -> Array:
        if not is_foreign(X):
            return _validated(self, X, reset=reset)
        xp = namespace_of(X)
        if X.ndim != 2 or 0 in X.shape:
            raise InvalidInputError(f"Images must be rows of a 2-D array. Got {X.ndim} dimensions.")
        if reset:
            self.n_features_in_ = int(X.shape[1])
        elif X.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float32)


def _validated(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    try:
        rows = validate_data(
            estimator, X, reset=reset, dtype=FLOATS, ensure_all_finite=False, copy=False
        )
    except TypeError:
        raise
    except ValueError as error:
        message = str(error)
        if message.startswith("could not convert"):  # the original quotes the value
            message = "The images must hold numbers; a text was found that is none."
        raise InvalidInputError(message) from None
    return np.asarray(rows)


def image_shape_for(given: tuple[int, ...] | None, n_pixels: int) -> tuple[int, int, int]:
    """Give height, width and channels; without a shape, the squarest grey image there is."""
    if given is None:
        height = next(h for h in range(math.isqrt(n_pixels), 0, -1) if n_pixels % h == 0)
        return height, n_pixels // height, 1
    shape = tuple(int(size) for size in given)
    if len(shape) not in (2, 3) or min(shape) < 1:
        raise InvalidInputError(
            "'image_shape' must be (height, width) or (height, width, channels), or None. "
            f"Got {given!r} instead."
        )
    if math.prod(shape) != n_pixels:
        raise InvalidInputError(
            f"Images of shape {shape} have {math.prod(shape)} numbers, the rows have {n_pixels}."
        )
    return (*shape, 1) if len(shape) == 2 else shape  # type: ignore[return-value]


def square_root(x: Array) -> Array:
    """Square root of numbers that may have fallen just below zero by rounding."""
    xp = namespace_of(x)
    return xp.sqrt(xp.where(x > 0, x, xp.zeros_like(x)))


def unit_length(rows: Array) -> Array:
    """Scale each row to length 1, a hair below it; a row of zeros stays."""
    xp = namespace_of(rows)
    squares = xp.sum(rows * rows, axis=1, keepdims=True)
    hair = 1e-6 if rows.dtype == xp.float32 else 1e-14
    ones = xp.ones_like(squares)
    return rows * ((1 - hair) / xp.sqrt(xp.where(squares > 0, squares, ones)))
