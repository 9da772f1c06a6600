"""Statistics: what is added up, a term per record, and how far one record can move the sum."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, namespace_of, to_numpy
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import ROW_BITS, double_rounding, truncate_to_grid

if TYPE_CHECKING:
    from sfumato.sums.persons import PersonUnit

Codes = NDArray[np.intp]


class Statistic(ABC):
    """A sum over records, described without data: shape, term, sensitivity.

    A subclass is a frozen dataclass of public values, so that it can be sent to where rows live.
    Its terms are multiples of ``2**-36`` below 2 in magnitude; `add_up` is then exact.
    """

    is_symmetric: ClassVar[bool] = False  # in its last two axes, so that half of the noise is drawn
    takes_singles: ClassVar[bool] = False  # whether `add_up` reads rows held as `Float32Rows`

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    @property
    @abstractmethod
    def in_ball(self) -> int:
        """How many first numbers of a row must lie in the unit ball, or its term is zero.

        0 where terms are bounded whatever a row holds.
        """

    @property
    def max_term(self) -> float:
        """Largest magnitude of a term of one record, in one coordinate; below 2."""
        return 1.0

    @property
    def size(self) -> int:
        """Numbers in the sum."""
        return math.prod(self.shape)

    @abstractmethod
    def add_up(self, rows: Array, codes: Codes) -> Array:
        """Return the exact sum of the terms of a block of records.

        Parameters
        ----------
        rows : array of shape (n, width)
            Rows of the unit ball.
        codes : ndarray of shape (n,)
            Number of each record's class.

        Returns
        -------
        array
            The sum, of the shape of the statistic.
        """

    @abstractmethod
    def term_sensitivity(self, relation: Relation) -> float:
        """Largest distance of the exact sums of two neighbours, in the Euclidean norm.

        Parameters
        ----------
        relation : Relation
            Which data sets count as neighbours.

        Returns
        -------
        float
            The distance.
        """

    def term_total(self, relation: Relation) -> float:
        """Largest distance of the exact sums of two neighbours, in the sum of magnitudes.

        Parameters
        ----------
        relation : Relation
            Which data sets count as neighbours.

        Returns
        -------
        float
            By default the Euclidean distance times the root of the size, which is never less.
        """
        return math.sqrt(self.size) * self.term_sensitivity(relation)

    def add_up_persons(self, rows: Array, codes: Codes, size: int) -> Array:  # noqa: ARG002
        """Return the exact sum over rows that belong to persons, `size` rows each and side by side.

        Parameters
        ----------
        rows : array of shape (n, width)
            Rows of the unit ball.
        codes : ndarray of shape (n,)
            Number of each record's class.
        size : int
            Rows of each person.

        Returns
        -------
        array
            The sum, of the shape of the statistic; by default that of `add_up`.
        """
        return self.add_up(rows, codes)

    def joined_sensitivity(self, relation: Relation, unit: PersonUnit) -> float | None:  # noqa: ARG002
        """Largest distance where all rows of a person are bounded together.

        Parameters
        ----------
        relation : Relation
            Which data sets count as neighbours.
        unit : PersonUnit
            How many rows a person has, and how they are added up.

        Returns
        -------
        float or None
            None, the default, where each row is bounded by itself.
        """
        return None

    def touched(self, n_rows: int, *, part: bool = False) -> int:  # noqa: ARG002 - all of them
        """Most numbers of the sum that `n_rows` records can change.

        Parameters
        ----------
        n_rows : int
            Records.
        part : bool, default=False
            Whether only one part of the statistic is asked for.

        Returns
        -------
        int
            By default all of them.
        """
        return self.size

    def rounding(self, max_rows: int) -> float:
        """Euclidean distance by which two sums can move apart as they become doubles.

        Parameters
        ----------
        max_rows : int
            The public number of records, or a public bound on it.

        Returns
        -------
        float
            The distance.
        """
        return double_rounding(self.size, self.max_term * max_rows)

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Largest distance of the sums of two neighbours once they are doubles.

        Parameters
        ----------
        relation : {"replace_one", "add_or_remove_one"}
            Which data sets count as neighbours.
        max_rows : int
            The public number of records, or a public bound on it.
        norm : {1, 2, "part"}, default=2
            The sum of magnitudes, the Euclidean norm, or the sum over one part of the statistic.

        Returns
        -------
        float
            The distance.
        """
        rounding = self.rounding(max_rows)
        if norm != 2:  # a part moves no further than the whole
            return self.term_total(Relation(relation)) + math.sqrt(self.size) * rounding
        return self.term_sensitivity(Relation(relation)) + rounding


@dataclass(frozen=True)
class ClassCounts(Statistic):
    """Number of records of each class: ``sum e_y``.

    Adding a record moves one count by 1. Replacing one moves two counts by 1 each: √2.

    Parameters
    ----------
    n_classes : int
        Classes.
    """

    n_classes: int
    in_ball = 0  # rows are not read

    @property
    def shape(self) -> tuple[int, ...]:
        """One count per class."""
        return (self.n_classes,)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - rows are not counted
        """Count the records of each class."""
        counts = np.bincount(to_numpy(codes), minlength=self.n_classes)
        return counts.astype(np.float64)

    def term_sensitivity(self, relation: Relation) -> float:
        """√2 (replace) or 1 (add or remove)."""
        return math.sqrt(2) if relation is Relation.REPLACE_ONE else 1.0


@dataclass(frozen=True)
class MeanAndSquares(Statistic):
    """``sum [z; |z|²; 1]`` over rows of the unit ball.

    Adding a row moves it by ``sqrt(|z|² + |z|⁴ + 1) <= √3``. Replacing z by v, with lengths a
    and b, moves it by at most ``sqrt((a + b)² (1 + (a - b)²)) <= 2``.

    Parameters
    ----------
    width : int
        Numbers of a row.
    """

    width: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of a row and two more."""
        return (self.width + 2,)

    @property
    def in_ball(self) -> int:
        """All."""
        return self.width

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        """Add up rows, squared lengths and ones."""
        on_grid = truncate_to_grid(rows, ROW_BITS)
        squares = float(np.einsum("ij,ij->", on_grid, on_grid))
        return np.concatenate([on_grid.sum(axis=0), [squares, len(on_grid)]])

    def term_sensitivity(self, relation: Relation) -> float:
        """2 (replace) or √3 (add or remove)."""
        return 2.0 if relation is Relation.REPLACE_ONE else math.sqrt(3)


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """``M = sum z zᵀ`` over rows of the unit ball.

    Adding a row moves it by ``||z zᵀ||_F = |z|² <= 1``. Replacing one moves it by
    ``||z zᵀ - v vᵀ||_F = sqrt(|z|⁴ + |v|⁴ - 2 (z.v)²) <= √2``, attained by orthonormal z, v.

    Parameters
    ----------
    width : int
        Numbers of a row.
    """

    width: int
    is_symmetric: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Square."""
        return (self.width, self.width)

    @property
    def in_ball(self) -> int:
        """All."""
        return self.width

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        """Add up products."""
        on_grid = truncate_to_grid(rows, ROW_BITS)
        return namespace_of(on_grid).matrix_transpose(on_grid) @ on_grid

    def term_sensitivity(self, relation: Relation) -> float:
        """√2 (replace) or 1 (add or remove)."""
        return math.sqrt(2) if relation is Relation.REPLACE_ONE else 1.0


@dataclass(frozen=True, eq=False)
class Parts:
    """Public cuts of each class at a point and along axes: which part a row belongs to.

    Parameters
    ----------
    means : ndarray of shape (n_classes, width)
        Where each class is cut.
    axes : ndarray of shape (n_classes, width, n_axes)
        Across which directions; ``2**n_axes`` parts per class.
    """

    means: NDArray[np.float64] = field(repr=False)
    axes: NDArray[np.float64] = field(repr=False)

    @property
    def per_class(self) -> int:
        """Parts of a class."""
        return 1 << int(self.axes.shape[2])

    def of(self, rows: Array, codes: Codes) -> Codes:
        """Return the part of each row; each row by itself."""
        along = np.einsum("ij,ijk->ik", rows - self.means[codes], self.axes[codes])
        places = (along > 0) @ (1 << np.arange(self.axes.shape[2]))
        return np.asarray(codes * self.per_class + places)


@dataclass(frozen=True)
class ClassMoments(Statistic):
    """``S_c = sum_{y=c} a aᵀ`` with ``a = [u; w]``, for all classes, or parts of them, jointly.

    ``|a|² <= 1 + w²``, so a row is worth at most that in one class. Replacing it takes at most as
    much from one class and gives at most as much to another (√2 times that together; a new label
    is included), or changes one class by at most √2 times that.

    Parameters
    ----------
    n_classes : int
        Classes.
    width : int
        Numbers of a row u of the unit ball.
    constant : float, default=1.0
        Weight w of the constant, at most 1 and a multiple of 2**-8: products with it are exact.
    parts : Parts, optional
        How classes are cut; by default each is one part.
    """

    n_classes: int
    width: int
    constant: float = 1.0
    parts: Parts | None = None
    is_symmetric: ClassVar[bool] = True

    @property
    def n_groups(self) -> int:
        """Classes times parts of each."""
        return self.n_classes * (1 if self.parts is None else self.parts.per_class)

    @property
    def shape(self) -> tuple[int, ...]:
        """One square matrix per group."""
        return (self.n_groups, self.width + 1, self.width + 1)

    @property
    def in_ball(self) -> int:
        """All."""
        return self.width

    def add_up(self, rows: Array, codes: Codes) -> Array:
        """Add up products, group by group."""
        on_grid = truncate_to_grid(rows, ROW_BITS)
        groups = codes if self.parts is None else self.parts.of(on_grid, codes)
        extended = np.column_stack([on_grid, np.full(len(on_grid), self.constant)])
        total = np.zeros(self.shape)
        for group in np.unique(groups):
            members = extended[groups == group]
            total[group] = members.T @ members
        return total

    def unweighted(self, sums: Array) -> Array:
        """Return ``sum [u; 1][u; 1]ᵀ`` of released sums.

        Parameters
        ----------
        sums : ndarray
            What was released, in the shape of the statistic.

        Returns
        -------
        ndarray
            The sums with a constant of 1.
        """
        column = np.append(np.ones(self.width), self.constant)
        return np.asarray(sums / np.outer(column, column))

    def term_sensitivity(self, relation: Relation) -> float:
        """``√2 (1 + w²)`` (replace) or ``1 + w²`` (add or remove)."""
        return (1 + self.constant**2) * SecondMoment(self.width).term_sensitivity(relation)
