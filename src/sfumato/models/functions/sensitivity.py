"""How far one record can move a function, in the norm of its kernel space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation

Array = NDArray[np.float64]

# Sobolev norms are computed in units of the bandwidth. Beyond this width the two ends of the
# interval no longer see each other: what is left out is below 1e-12.
MAX_WIDTH = 14.0
NEGLECTED = 1e-9
CERTIFIED_TO = 6e-3  # the search for the largest norm stops this close to it


def feature_sum_sensitivity(
    relation: str | Relation, *, min_kernel: float = 0.0, n_classes: int = 1
) -> float:
    """Norm by which one record moves ``sum_i phi(x_i)``, ``phi(x).phi(z) = k(x, z)``, k(x, x) = 1.

    Adding x moves it by ``||phi(x)|| = 1``. Replacing x by z moves it by
    ``sqrt(2 - 2 k(x, z)) <= sqrt(2 - 2 k_min)``, which is √2 where rows may lie far apart. With a
    sum per class, a changed label moves two of them by 1 each: √2 again, for any number of classes.
    """
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        return 1.0
    overlap = min_kernel if n_classes == 1 else 0.0
    return math.sqrt(2 - 2 * overlap)


def minimiser_sensitivity(
    relation: str | Relation,
    *,
    lipschitz: float,
    feature_norm: float,
    regularization: float,
    n_rows: int,
    gap: float = 0.0,
) -> float:
    """``M κ / (λ n) + 2 sqrt(gap / λ)`` for ``argmin (1/n) sum loss(g(x_i), y_i) + λ ||g||²``.

    relation: Adding or removing a record (the divisor n stays what it is) moves the exact minimiser
        by half as much as replacing it.
    lipschitz: M, of the loss in the scores (Euclidean norm for several scores).
    feature_norm: κ, the largest ``sqrt(k(x, x))``.
    n_rows: n, a public number.
    gap: What the objective at the computed point may exceed its minimum by. Strong convexity puts
        that point within ``sqrt(gap / λ)`` of the minimiser.
    """
    moved = lipschitz * feature_norm / (regularization * n_rows)
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        moved /= 2
    return moved + 2 * math.sqrt(gap / regularization)


# The Sobolev space of the exponential kernel -----------------------------------------------------


def sobolev_inner_product(a: Array, b: Array, width: float) -> Array:
    """``<N(.; a, 1), N(.; b, 1)>`` in H1[0, width] with kernel ``exp(-|x - y|)``, in closed form.

    ``<f, g> = (f(0) g(0) + f(w) g(w)) / 2 + 1/2 ∫ f' g' + f g``; for bandwidth h and kernel
    ``exp(-|x - y| / h)`` lengths are divided by h and the product is divided by h².
    """
    middle, apart = (a + b) / 2, (a - b) ** 2 / 4
    left, right = middle, width - middle
    mass = math.sqrt(math.pi) / 2 * (erf(left) + erf(right))
    edges = left * np.exp(-(left**2)) + right * np.exp(-(right**2))
    inside = ((1.5 - apart) * mass - edges / 2) * np.exp(-apart) / (4 * math.pi)
    ends = np.exp(-(a**2 + b**2) / 2) + np.exp(-((width - a) ** 2 + (width - b) ** 2) / 2)
    return np.asarray(inside + ends / (4 * math.pi))


# ||d/da N(.; a, 1)||² <= 1/2 ∫ (phi''² + phi'²) over the line + the largest phi'² of the two ends.
_LIPSCHITZ = math.sqrt(5 / (16 * math.sqrt(math.pi)) + math.exp(-1) / (2 * math.pi))


def sobolev_sensitivity(relation: str | Relation, widths: Sequence[float]) -> float:
    """Norm by which one record moves ``sum_i prod_j N(x_j; x_ij, 1)`` in the tensor Sobolev space.

    relation: The neighbours.
    widths: Sides of the box that holds all rows, in bandwidths.
    Returns: An upper bound, within 1 % of the supremum in one dimension: the largest norm is
        searched by bisection of the box, and cells are discarded by a Lipschitz bound only.
    """
    lengths = [min(float(width), MAX_WIDTH) for width in widths]
    if not lengths or min(lengths) <= 0:
        raise InvalidInputError("'widths' must be positive, one per dimension.")
    squares = [_max_square(length) for length in lengths]
    if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
        return math.sqrt(math.prod(squares)) + NEGLECTED
    if len(lengths) == 1:
        return _max_distance(lengths[0]) + NEGLECTED
    # ||f - g||² <= 2 prod N_j - 2 prod <f_j, g_j>. A product of numbers of [-c_j, N_j], c_j <= N_j,
    # is least with one of them negative.
    worst = max(
        _max_opposition(length) * math.prod(squares) / square
        for length, square in zip(lengths, squares, strict=True)
    )
    return math.sqrt(2 * math.prod(squares) + 2 * worst) + NEGLECTED


@lru_cache
def _max_square(width: float) -> float:
    norm: float = _certified_maximum(
        lambda p: np.sqrt(sobolev_inner_product(p[:, 0], p[:, 0], width)), width, 1, _LIPSCHITZ
    )
    return norm**2


@lru_cache
def _max_distance(width: float) -> float:
    def distance(p: Array) -> Array:
        a, b = p[:, 0], p[:, 1]
        square = sum(sobolev_inner_product(z, z, width) for z in (a, b))
        return np.sqrt(np.maximum(square - 2 * sobolev_inner_product(a, b, width), 0.0))

    return _certified_maximum(distance, width, 2, _LIPSCHITZ)


@lru_cache
def _max_opposition(width: float) -> float:
    """Largest ``-<phi_a, phi_b>``, or 0."""
    slope = _LIPSCHITZ * math.sqrt(_max_square(width))
    return _certified_maximum(
        lambda p: np.maximum(-sobolev_inner_product(p[:, 0], p[:, 1], width), 0.0), width, 2, slope
    )


def _certified_maximum(
    function: Callable[[Array], Array], width: float, dimension: int, lipschitz: float
) -> float:
    """Upper bound of a function on ``[0, width]^dimension``, Lipschitz in each coordinate."""
    cells, half = np.full((1, dimension), width / 2), width / 2
    corners = np.stack(np.meshgrid(*[[-0.5, 0.5]] * dimension), axis=-1).reshape(-1, dimension)
    while True:
        values = function(cells)
        above = dimension * lipschitz * half
        best = float(values.max())
        if above <= CERTIFIED_TO * lipschitz:
            return best + above
        cells = cells[values + above >= best]
        if dimension == 2:  # the functions are symmetric
            cells = cells[cells[:, 0] <= cells[:, 1]]
        half /= 2
        cells = (cells[:, None, :] + 2 * half * corners).reshape(-1, dimension)
