"""Rows as images: what the image features share."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import (
    Array,
    is_accelerated,
    is_foreign_array,
    like,
    namespace_of,
)
from sfumato.core.constraints import Form, listed, refuse, whole
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.models.private import checked_rows
from sfumato.tables.cells import checked_tensor

# Images at a time: the arrays in between stay in the cache of a processor, or fill a GPU.
BLOCK = 16
ACCELERATED_BLOCK = 4096
MAX_PIXEL = 2.0**40  # its square, a million times, is still a number in single precision
SIDE = 32  # pixels of generated images; larger ones are averaged down to it
MIN_SIDE = 8  # pixels of a side: in smaller images each pixel becomes a square of pixels
MAX_FEATURES = 2**24  # of an image, in a stored model


class ImageFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the image features; not meant to be used by itself.

    A subclass writes `_describe`, which maps a stack of images ``(n, height, width, channels)`` to
    features, image by image. Nothing is learned from data, so nothing is to be paid for. An image
    with a missing or infinite number, or with a cell that is no number, is taken for a blank one;
    numbers beyond 2**40 are taken for 2**40.
    """

    image_shape: tuple[int, ...] | None
    stored_form: ClassVar[Form] = {
        "image_shape_": listed(whole(least=1), least=3, size=3, kind=tuple),
        "n_features_out_": whole("out", least=1, most=MAX_FEATURES),
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # A bad number makes its own image blank; an error would tell that it is there.
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
        blank = like(rows, np.zeros((1, rows.shape[1]), dtype=np.float32))
        self.n_features_out_ = int(self._describe(self._images(blank)).shape[1])
        return self

    def _check_stored(self, sizes: dict[str, int]) -> None:
        if math.prod(self.image_shape_) != sizes["d"]:
            raise refuse("image_shape_", "height, width and channels of the rows' images")
        if self._describe(self._images(np.zeros((1, sizes["d"])))).shape[1] != sizes["out"]:
            raise refuse("n_features_out_", "the number of features of an image")

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_out_)

    def transform(self, X: ArrayLike) -> Array:
        """Return the features, each row of length 1 at most.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return self._in_blocks(rows, ACCELERATED_BLOCK if is_accelerated(rows) else BLOCK)

    def transform_alone(self, X: ArrayLike) -> Array:
        """Return the features that do not depend on other images, to the bit.

        On a processor that is what `transform` gives. On an accelerator each image is a batch of
        its own, which takes many times as long: there the last bits of an image's features were
        found to depend on the batch it stands in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_pixels)
            Images as rows.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return self._in_blocks(rows, 1 if is_accelerated(rows) else BLOCK)

    def _in_blocks(self, rows: Array, size: int) -> Array:
        xp = namespace_of(rows)
        parts = [
            self._describe(self._images(_sound(_block(rows, start, size))))
            for start in range(0, rows.shape[0], size)
        ]
        if not parts:  # the number of rows may be secret, so none is no error
            return xp.zeros((0, self.n_features_out_), dtype=rows.dtype, device=rows.device)
        return xp.concat(parts, axis=0)[: rows.shape[0], :]

    def _images(self, rows: Array) -> Array:
        return namespace_of(rows).reshape(rows, (rows.shape[0], *self.image_shape_))

    @abstractmethod
    def _describe(self, images: Array) -> Array:
        """Return the features of each image."""

    def _rows(self, X: Any, *, reset: bool) -> Array:
        if not is_foreign_array(X):
            rows = checked_rows(self, X, reset=reset, may_be_empty=True)
            is_single = isinstance(X, np.ndarray) and X.dtype == np.float32
            return rows.astype(np.float32) if is_single else rows
        xp = namespace_of(X)
        floats = X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float32)
        return checked_tensor(self, floats, reset=reset, may_be_empty=True)


def _block(rows: Array, start: int, size: int) -> Array:
    """Return `size` rows, with blank ones where there are no more.

    A library may add in another order for another number of images. With one size of block, the
    bits of an image's features do not depend on how many others there are.
    """
    xp, block = namespace_of(rows), rows[start : min(start + size, rows.shape[0]), :]
    n_blank = size - block.shape[0]
    blank = xp.zeros((n_blank, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    return xp.concat([block, blank], axis=0) if n_blank else block


def _sound(rows: Array) -> Array:
    """Make images with missing or infinite numbers blank, and no number so large as to overflow."""
    xp = namespace_of(rows)
    whole = xp.all(xp.isfinite(rows), axis=1, keepdims=True)
    return xp.clip(xp.where(whole, rows, xp.zeros_like(rows)), -MAX_PIXEL, MAX_PIXEL)


def image_shape_for(given: tuple[int, ...] | None, n_pixels: int) -> tuple[int, int, int]:
    """Return height, width and channels; without a shape, the squarest grey image there is."""
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


def over_mirror_images(
    features_of: Callable[[Array], Array], images: Array, mirror: str | None
) -> Array:
    """Features of images, or their mean over an image and its mirror image, of length 1."""
    if mirror is None:
        return features_of(images)
    if mirror != "average":
        raise InvalidInputError(f"'mirror' must be None or 'average'. Got {mirror!r}.")
    mirrored = namespace_of(images).flip(images, axis=2)
    return unit_length((features_of(images) + features_of(mirrored)) / 2)


def packaged(file: Path, sha256: str) -> dict[str, NDArray[np.float32]]:
    """Read the numbers of a file of this package, in single precision."""
    if hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
        raise StoredModelError(
            f"The file '{file.name}' of the package is damaged. Install Sfumato again."
        )
    with np.load(file, allow_pickle=False) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files if name != "made_by"}


def unit_length(rows: Array) -> Array:
    """Scale each row to length 1, a hair below it; a row of zeros stays."""
    xp = namespace_of(rows)
    squares = xp.sum(rows * rows, axis=1, keepdims=True)
    hair = 1e-6 if rows.dtype == xp.float32 else 1e-14
    ones = xp.ones_like(squares)
    return rows * ((1 - hair) / xp.sqrt(xp.where(squares > 0, squares, ones)))


def as_colours(images: Array) -> Array:
    """Channels first, three of them, about 0."""
    xp = namespace_of(images)
    images = xp.permute_dims(images, (0, 3, 1, 2))
    if images.shape[1] == 1:
        images = xp.concat([images, images, images], axis=1)
    return (xp.clip(images, 0.0, 1.0) - 0.5) / 0.25


def resized(images: Array) -> Array:
    """Averages over squares: the shorter side becomes SIDE, or less than twice it."""
    n, height, width, channels = images.shape
    if min(height, width) < MIN_SIDE:
        xp, times = namespace_of(images), -(-MIN_SIDE // min(height, width))
        return xp.repeat(xp.repeat(images, times, axis=1), times, axis=2)
    step = max(1, min(height, width) // SIDE)
    if step == 1:
        return images
    xp, rows, columns = namespace_of(images), height // step, width // step
    cut = images[:, : rows * step, : columns * step, :]
    squares = xp.reshape(cut, (n, rows, step, columns, step, channels))
    return xp.mean(xp.mean(squares, axis=4), axis=2)


def cell_of(size: int, grid: int, place: int) -> slice:
    """Pixels of a cell of a grid along one side; neighbours share one where they must."""
    return slice(place * size // grid, -(-(place + 1) * size // grid))
