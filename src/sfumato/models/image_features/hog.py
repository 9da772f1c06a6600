"""Histograms of oriented gradients: public, data-free image features."""

from __future__ import annotations

import math
from typing import ClassVar

from sfumato.core.arrays import Array, namespace_of
from sfumato.core.constraints import Form, flag, whole
from sfumato.exceptions import InvalidInputError
from sfumato.models.image_features.images import ImageFeatures, unit_length

MIN_BLOCK = 1e-3  # keeps a block of nearly flat pixels from being blown up to length 1
MAX_ENTRY = 0.2  # the clipping of Dalal & Triggs, after which a block is normalised again


class HOGFeatures(ImageFeatures):
    """Histograms of gradient directions in cells, normalised in overlapping blocks of cells.

    Parameters
    ----------
    image_shape : tuple of int, optional
        (height, width) or (height, width, channels); without it, the squarest grey image.
    cell : int, default=4
        Side of a cell, in pixels.
    n_bins : int, default=9
        Number of directions in a histogram.
    block : int, default=2
        Side of a block, in cells; blocks overlap, moving by one cell.
    signed : bool, default=False
        Whether opposite directions count as two (dark to light, light to dark).

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels.
    n_features_out_ : int
        Number of features.

    Notes
    -----
    A pixel votes with the length of its gradient (of the channel where it is longest) for the two
    nearest directions, in proportion to their nearness. Rows of the result have length 1 (0 for a
    flat image), so ``Bounds(norm=1.0)`` is valid; nothing is learned, so nothing is charged.

    References
    ----------
    Dalal & Triggs, Histograms of oriented gradients for human detection, CVPR 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import HOGFeatures
    >>> images = np.random.default_rng(0).random((5, 784))
    >>> HOGFeatures(image_shape=(28, 28)).fit_transform(images).shape
    (5, 1296)
    """

    stored_form: ClassVar[Form] = {
        **ImageFeatures.stored_form,
        "cell": whole(least=1, most=4096),
        "n_bins": whole(least=1, most="out"),
        "block": whole(least=1, most=4096),
        "signed": flag(),
    }

    def __init__(
        self,
        image_shape: tuple[int, ...] | None = None,
        *,
        cell: int = 4,
        n_bins: int = 9,
        block: int = 2,
        signed: bool = False,
    ) -> None:
        self.image_shape = image_shape
        self.cell = cell
        self.n_bins = n_bins
        self.block = block
        self.signed = signed

    def _describe(self, images: Array) -> Array:
        for name in ("cell", "n_bins", "block"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"'{name}' must be at least 1. Got {getattr(self, name)}.")
        across, along = _max_gradient(images)
        votes = _votes(across, along, self.n_bins, self.signed)
        return unit_length(_blocks(_cells(votes, self.cell), self.block))


def _max_gradient(images: Array) -> tuple[Array, Array]:
    """Differences of the two neighbours in a row and in a column, zero at the edge."""
    xp = namespace_of(images)
    across, along = xp.zeros_like(images), xp.zeros_like(images)
    along[:, 1:-1, :, :] = images[:, 2:, :, :] - images[:, :-2, :, :]
    across[:, :, 1:-1, :] = images[:, :, 2:, :] - images[:, :, :-2, :]
    if images.shape[3] == 1:
        return across[..., 0], along[..., 0]
    lengths = across * across + along * along
    longest = xp.argmax(lengths, axis=3, keepdims=True)
    channels = xp.reshape(xp.arange(images.shape[3], device=longest.device), (1, 1, 1, -1))
    kept = xp.astype(longest == channels, images.dtype)
    return xp.sum(across * kept, axis=3), xp.sum(along * kept, axis=3)


def _votes(across: Array, along: Array, n_bins: int, signed: bool) -> Array:
    """Votes of each pixel, shape (n, height, width, n_bins)."""
    xp = namespace_of(across)
    turn = 2 * math.pi if signed else math.pi
    length = xp.sqrt(across * across + along * along)
    place = xp.atan2(along, across) * (n_bins / turn)  # in bins, any whole number of turns off
    centres = xp.arange(n_bins, dtype=across.dtype, device=across.device)
    away = place[..., None] - centres
    away = xp.abs(away - n_bins * xp.round(away / n_bins))
    near = 1 - away
    return length[..., None] * xp.where(near > 0, near, xp.zeros_like(near))


def _cells(votes: Array, cell: int) -> Array:
    """Sums over cells; the last ones may be cut by the edge of the image."""
    xp = namespace_of(votes)
    n, height, width, n_bins = votes.shape
    down, right = -(-height // cell), -(-width // cell)
    padded = xp.zeros(
        (n, down * cell, right * cell, n_bins), dtype=votes.dtype, device=votes.device
    )
    padded[:, :height, :width, :] = votes
    return xp.sum(xp.reshape(padded, (n, down, cell, right, cell, n_bins)), axis=(2, 4))


def _blocks(cells: Array, block: int) -> Array:
    """Blocks of cells, each normalised, clipped and normalised again; one row per image."""
    xp = namespace_of(cells)
    n, down, right, _ = cells.shape
    tall, wide = min(block, down), min(block, right)
    n_down, n_right = down - tall + 1, right - wide + 1
    shifted = [
        cells[:, i : i + n_down, j : j + n_right, :] for i in range(tall) for j in range(wide)
    ]
    blocks = _normalised(xp.concat(shifted, axis=3))
    limit = MAX_ENTRY * xp.ones_like(blocks)
    return xp.reshape(_normalised(xp.where(blocks < limit, blocks, limit)), (n, -1))


def _normalised(blocks: Array) -> Array:
    xp = namespace_of(blocks)
    squares = xp.sum(blocks * blocks, axis=3, keepdims=True)
    return blocks / xp.sqrt(squares + MIN_BLOCK**2)
