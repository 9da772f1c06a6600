"""A public random projection: random signs, a Hartley transform, and some of its numbers.

Signs and transform turn a row without changing its length; every number of the result then holds
a little of the whole row, so that any `k` of them do (Ailon & Chazelle 2009). It costs a fast
Fourier transform per row, and its description is a seed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.kernels.arrays import Array, like, namespace_of

__all__ = ["projected"]


def projected(rows: Array, n_kept: int, seed: int) -> Array:
    """Give `n_kept` numbers per row, whose squares add up to those of the row on average.

    Parameters
    ----------
    rows : array of shape (n, m)
        Rows; each is treated alone.
    n_kept : int
        At most m.
    seed : int
        Public seed of signs and places.
    """
    xp, width = namespace_of(rows), int(rows.shape[1])
    signs, places = _turn(width, n_kept, seed)
    kind = xp.complex64 if rows.dtype == xp.float32 else xp.complex128
    turned = xp.astype(rows, kind) * xp.astype(like(rows, signs), kind)[None, :]
    spectrum = xp.fft.fft(turned, axis=1)
    kept = xp.take(spectrum, like(rows, places), axis=1)
    return (xp.real(kept) - xp.imag(kept)) * (1 / math.sqrt(n_kept))


def _turn(width: int, n_kept: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    generator = check_random_state(seed)
    signs = 2.0 * generator.randint(0, 2, size=width) - 1
    return signs, np.sort(generator.permutation(width)[:n_kept])
