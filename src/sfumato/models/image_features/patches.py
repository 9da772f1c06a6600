"""Responses of images to patches of images of random processes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import (
    Array,
    is_accelerated,
    is_foreign_array,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.core.constraints import Form, one_of, or_none, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.image_features.images import (
    ImageFeatures,
    as_colours,
    cell_of,
    over_mirror_images,
    packaged,
    resized,
    unit_length,
)
from sfumato.models.image_features.scattering import shortened

FILTERS = Path(__file__).with_name("random_patches.npz")
SHA256 = "df4400395b68e3abbfc6acc15af621c47a8c13a4cb54f0a4c359b682366445c9"
SIDE = 6  # pixels of a patch
GRID = 2  # cells of an image a side, in which responses are averaged
THRESHOLD = 1.0  # what a response must pass to count, and by which it is lessened
FLAT = 0.016  # added to the variance of a patch: a flat one stays flat
# Filters at a time: responses stay in the cache of a processor, or fill a GPU.
AT_A_TIME, ACCELERATED = 64, 512


class RandomPatchFeatures(ImageFeatures):
    """How strongly patches of generated images are found in each quarter of an image.

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels) with 1 or 3 channels; without it, the squarest
        grey image. Pixels lie in [0, 1].
    n_filters : int, default=8192
        How many of the 8,192 patches are looked for.
    mirror : {None, "average"}, default="average"
        "average" takes the mean of the features of an image and of its mirror image.
    n_projected : int or None, default=2500
        How many numbers a public random projection keeps; None keeps all, eight per filter.
    seed : int, default=0
        Public seed of the projection.

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    n_features_out_ : int
        Number of features.

    Notes
    -----
    Each patch of 6 x 6 pixels of an image is brought to mean 0 and variance 1 and multiplied with
    each filter, a whitened patch of an image of dead leaves. What passes a threshold upwards, and
    what passes it downwards, is averaged in the quarters of the image; the roots of the averages
    are the features. The filters were cut out of generated images
    (``tools/random_process_net/patches.py``), so they contain nothing about anybody: using them
    costs no budget. They are a file of this package, checked by its hash. Rows of the result have
    length 1, so ``Bounds(norm=1.0)`` is valid. On an accelerator products are of half precision.

    References
    ----------
    Coates, Ng & Lee, An analysis of single-layer networks in unsupervised feature learning,
    AISTATS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import RandomPatchFeatures
    >>> images = np.random.default_rng(0).random((2, 8 * 8 * 3))
    >>> RandomPatchFeatures(image_shape=(8, 8, 3)).fit_transform(images).shape
    (2, 2500)
    """

    stored_form: ClassVar[Form] = {
        **ImageFeatures.stored_form,
        "n_filters": whole(least=1, most=8192),
        "mirror": or_none(one_of("average")),
        "n_projected": or_none(whole(least=1, most="out")),
        "seed": whole(least=0, most=2**32 - 1),
    }

    def __init__(
        self,
        image_shape: tuple[int, ...] | None = None,
        *,
        n_filters: int = 8192,
        mirror: str | None = "average",
        n_projected: int | None = 2500,
        seed: int = 0,
    ) -> None:
        self.image_shape = image_shape
        self.n_filters = n_filters
        self.mirror = mirror
        self.n_projected = n_projected
        self.seed = seed

    def _describe(self, images: Array) -> Array:
        if images.shape[3] not in (1, 3):
            raise InvalidInputError(f"Images must have 1 or 3 channels. Got {images.shape[3]}.")
        if not 1 <= self.n_filters <= len(_filters()):
            raise InvalidInputError(
                f"'n_filters' must lie between 1 and {len(_filters())}. Got {self.n_filters}."
            )
        features = over_mirror_images(self._all_features, images, self.mirror)
        return shortened(features, self.n_projected, self.seed)

    def _all_features(self, images: Array) -> Array:
        if is_foreign_array(images) and not array_api_compat.is_torch_array(images):
            return like(images, self._all_features(to_numpy(images)))
        xp, kind = namespace_of(images), images.dtype
        patches = _patches(as_colours(xp.astype(resized(images), xp.float32)))
        n, down, across, _ = patches.shape
        patches = xp.reshape(patches, (n, down * across, -1))
        filters, size = like(images, _filters()[: self.n_filters]), AT_A_TIME
        if is_accelerated(images):
            patches, filters, size = _in_halves(patches), _in_halves(filters), ACCELERATED
        parts = []
        for start in range(0, self.n_filters, size):
            some = xp.matrix_transpose(filters[start : start + size, :])
            responses = patches @ some  # image by image: the same bits anywhere
            parts.append(_means(xp.reshape(responses, (n, down, across, -1))))
        features = xp.sqrt(xp.reshape(xp.concat(parts, axis=2), (n, -1)))
        return xp.astype(unit_length(features), kind)


def _patches(images: Array) -> Array:
    """Patches ``(n, down, across, numbers)`` of mean 0 and variance 1 at all places."""
    if is_foreign_array(images):
        windows = images.unfold(2, SIDE, 1).unfold(3, SIDE, 1)
    else:
        windows = np.lib.stride_tricks.sliding_window_view(images, (SIDE, SIDE), axis=(2, 3))
    xp, (n, _, down, across) = namespace_of(images), windows.shape[:4]
    patches = xp.reshape(xp.permute_dims(windows, (0, 2, 3, 1, 4, 5)), (n, down, across, -1))
    patches = patches - xp.mean(patches, axis=3, keepdims=True)
    variance = xp.mean(patches * patches, axis=3, keepdims=True)
    return patches / xp.sqrt(variance + FLAT)


def _in_halves(x: Array) -> Array:
    """Return numbers in half precision, with zeros behind them to the next multiple of eight.

    A patch is at most 11 long and a filter 4, so that no product overflows.
    """
    xp, missing = namespace_of(x), -x.shape[-1] % 8
    zeros = xp.zeros((*x.shape[:-1], missing), dtype=xp.float16, device=x.device)
    return xp.concat([xp.astype(x, xp.float16), zeros], axis=-1)


def _means(responses: Array) -> Array:
    """Means ``(n, 2 cells, filters)`` of what passes the threshold upwards, and downwards."""
    sides = [[cell_of(size, GRID, i) for i in range(GRID)] for size in responses.shape[1:3]]
    cells = [(slice(None), rows, columns) for rows in sides[0] for columns in sides[1]]
    if not is_foreign_array(responses):
        upwards = np.maximum(responses - THRESHOLD, 0)
        downwards = np.maximum(-responses - THRESHOLD, 0)
        found = [part[cell].mean(axis=(1, 2)) for part in (upwards, downwards) for cell in cells]
        return np.stack(found, axis=1)
    import torch

    # What passes, with its sign: sums and sums of lengths in three passes over memory.
    passed = torch.nn.functional.softshrink(responses, THRESHOLD)
    kind: Any = {"dtype": torch.float32, "dim": (1, 2)}
    signed = torch.stack([passed[cell].mean(**kind) for cell in cells], dim=1)
    lengths = [torch.linalg.vector_norm(passed[cell], 1, **kind) for cell in cells]
    sizes = [passed[cell][0, :, :, 0].numel() for cell in cells]
    plain = torch.stack([x / n for x, n in zip(lengths, sizes, strict=True)], dim=1)
    return torch.cat([plain + signed, plain - signed], dim=1).clamp(min=0) / 2


@lru_cache(maxsize=1)
def _filters() -> NDArray[np.float32]:
    """Read the filters of the package, in single precision."""
    return packaged(FILTERS, SHA256)["filters"]
