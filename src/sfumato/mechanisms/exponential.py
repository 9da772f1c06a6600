"""Choices: the exponential mechanism, and cuts and pairs of columns chosen by it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    as_statistic,
    grid_step,
    require_epsilon,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.sampling import choose
from sfumato.privacy.events import BoundedRangeEvent, Event, NonPrivateEvent, RepeatedEvent

Array = NDArray[np.float64]
Places = NDArray[np.intp]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ExponentialMechanism(Mechanism):
    """``P(i) ∝ exp(epsilon u_i / (2 D))`` for scores u of sensitivity D.

    Parameters
    ----------
    sensitivity : float
        D, the largest change of any one score over neighbours.
    epsilon : float
        The budget; infinity means the best candidate for certain.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : the position of one candidate.
    Sensitivity : D, enlarged by two steps of the grid to which the scores are rounded.
    Guarantee : pure epsilon, and bounded range epsilon: several choices cost less than the sum.
    Assumptions and numerics : the candidates are public; the choice is made with the exact real
        probabilities (`sfumato.mechanisms.sampling.choose`); OS entropy.
    """

    sensitivity: float
    epsilon: float

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        require_epsilon(self.epsilon)

    def event(self) -> Event:
        """Describe one release without data."""
        if math.isinf(self.epsilon):
            return NonPrivateEvent()
        return BoundedRangeEvent(self.epsilon, law="exponential")

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same choice."""
        return (math.pi * 2 * self.sensitivity / self.epsilon) ** 2 / 6

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> int:
        """Charge the ledger, then choose by a score for each candidate; gives the place chosen."""
        utility = as_statistic(value)
        if utility.ndim != 1 or utility.size == 0:
            raise InvalidInputError("Scores must form a non-empty one-dimensional array.")
        self._charge(ledger)
        return self.chosen(utility)

    def chosen(self, utility: NDArray[np.float64], times: Places | None = None) -> int:
        """Choose by scores, for a release that has been charged as part of another mechanism.

        Parameters
        ----------
        utility : ndarray of shape (n_candidates,)
            Finite scores.
        times : ndarray of shape (n_candidates,), optional
            Each score is that of so many candidates in a row; by default of one.

        Returns
        -------
        int
            Place of the chosen candidate.
        """
        if math.isinf(self.epsilon):
            return int(np.argmax(utility if times is None else np.repeat(utility, times)))
        step = grid_step(self.sensitivity, sensitivity=self.sensitivity, spread=1.0)
        gap = to_grid(utility, step)
        gap -= gap.max()
        # max(u_i, best - floor) has the sensitivity of u_i and keeps the exponents small enough
        # for their rounding (2**-33 epsilon) to hide in the second step paid for here.
        floor = 2.0**20 * self.sensitivity
        slope = self.epsilon / (2 * (self.sensitivity + 2 * step))
        return choose(np.asarray(np.maximum(gap, -floor) * slope), times)


@dataclass(frozen=True)
class QuantileMechanism(Mechanism):
    """Cut the cells of each column into ``2**n_levels`` parts of about equal counts.

    The cells of a column stand in a public order. A part that holds the cells a to b is cut before
    cell k with probability proportional to ``exp(-epsilon |below - above| / (2 D))``, where `below`
    and `above` are the counts on the two sides; then each side is cut again.

    Parameters
    ----------
    sensitivity : float
        D, by how much one record changes the counts of one column, added up over its cells: 1
        where records are added or removed, 2 where one is replaced.
    epsilon : float
        Bounded range of the cuts of one level of one column; infinity means the best cuts.
    n_columns, n_levels : int
        Columns, and how often each is halved.

    Privacy
    -------
    Unit and relation : those of the sensitivity; a record is counted once per column at most.
    Released : where each column is cut.
    Sensitivity : D of the counts, hence D of every score in sum over the parts of one level.
    Guarantee : ``n_columns * n_levels`` releases of bounded range epsilon.
    Assumptions and numerics : cells are public; counts are whole numbers, so that scores are
        exact; cuts are chosen with exact probabilities. Proof: docs/guarantees/knots.md.
    """

    sensitivity: float
    epsilon: float
    n_columns: int
    n_levels: int
    norm: ClassVar[int | str] = "part"  # the counts of one column

    def __post_init__(self) -> None:
        ExponentialMechanism(self.sensitivity, self.epsilon)  # refuses what no choice can have
        if min(self.n_columns, self.n_levels) < 1:
            raise InvalidInputError("There must be at least one column and one level.")

    def event(self) -> Event:
        """Describe one release without data."""
        # [N2] one record is in one part of each level and column, or moves between two
        one = ExponentialMechanism(self.sensitivity, self.epsilon).event()
        return RepeatedEvent(one, self.n_columns * self.n_levels)

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same cuts."""
        return ExponentialMechanism(self.sensitivity, self.epsilon).variance()

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> Array:
        """Charge the ledger, then cut columns by their counts of shape (n_columns, n_cells).

        Gives the first cell above each cut, ascending, in shape (n_columns, 2**n_levels - 1); NaN
        where a part of one cell was not cut.
        """
        counts = as_statistic(value)
        if counts.ndim != 2 or len(counts) != self.n_columns:
            raise InvalidInputError(f"Counts of {self.n_columns} columns are needed.")
        self._charge(ledger)
        chooser = ExponentialMechanism(self.sensitivity, self.epsilon)

        def cuts(below: Array, first: int, end: int, level: int) -> list[float]:
            """Cut the cells from first to end; a part of one cell has no cut."""
            if level == 0:
                return []
            if end - first < 2:
                return [math.nan] * (2**level - 1)
            inner = below[first + 1 : end]
            scores = -np.abs(2 * inner - below[first] - below[end])  # [N1] minus |below - above|
            cut = first + 1 + chooser.chosen(scores)
            left, right = (first, cut), (cut, end)
            return [*cuts(below, *left, level - 1), float(cut), *cuts(below, *right, level - 1)]

        below = np.cumsum(np.pad(counts, ((0, 0), (1, 0))), axis=1)
        return np.array([cuts(each, 0, counts.shape[1], self.n_levels) for each in below])


@dataclass(frozen=True)
class RankMechanism(Mechanism):
    """Choose, for each group, the cell of a public order that holds a wanted rank.

    A group's cells hold the ranks from ``below`` to ``below + count``. For the rank
    ``T = q N + slack`` of its N records, a cell is chosen with probability proportional to
    ``w exp(-epsilon d / (2 D))``, where w is its public weight and d is how far T lies outside of
    the cell's ranks. Beside the cells there is one place below all of them, which holds the ranks
    up to 0, and one above.

    Parameters
    ----------
    sensitivity : float
        S, by how much one unit changes all counts, added up over groups and cells.
    epsilon : float
        Bounded range of one rank; infinity means the best cells.
    n_groups : int
        Groups of as many cells each; the last count, of what has no value, is passed over.
    ranks : tuple of (float, float)
        q and slack of each wanted rank.
    is_paired : bool
        Whether a unit takes at most S / 2 from one group and gives at most S / 2 to the same.
    logs : tuple of tuple of float, optional
        For each wanted rank, logarithms of the weights of all places; by default all are alike.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : for each group and rank, a place from 0, below all cells, to ``n_cells + 1``.
    Sensitivity : of all scores of one rank together ``S max(q, 1 - q)``, or ``S / 2`` if paired.
    Guarantee : ``len(ranks)`` releases of bounded range epsilon, however many groups there are.
    Assumptions and numerics : cells are public; doubles hold scores to 2**-18; choices are exact.
        Proof: docs/guarantees/statistics.md.
    """

    sensitivity: float
    epsilon: float
    n_groups: int
    ranks: tuple[tuple[float, float], ...]
    is_paired: bool
    logs: tuple[tuple[float, ...], ...] = ()
    norm: ClassVar[int | str] = 1

    def __post_init__(self) -> None:
        ExponentialMechanism(self.sensitivity, self.epsilon)  # refuses what no choice can have

    def event(self) -> Event:
        """Describe one release without data."""
        return RepeatedEvent(self._chooser(0.5).event(), len(self.ranks))

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same choices."""
        return self._chooser(max(max(q, 1 - q) for q, _ in self.ranks)).variance()

    def _chooser(self, q: float) -> ExponentialMechanism:
        moved = self.sensitivity * (0.5 if self.is_paired else max(q, 1 - q))  # [R2]
        return ExponentialMechanism(moved + 2.0**-16, self.epsilon)

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> Places:
        """Charge the ledger, then choose places by counts, in shape (n_groups, n_ranks)."""
        counts = as_statistic(value, copy=None)[:-1].reshape(self.n_groups, -1)
        self._charge(ledger)
        chosen = np.empty((self.n_groups, len(self.ranks)), dtype=np.intp)
        end = counts.shape[1] + 2
        for i, cells in enumerate(counts):
            held = np.flatnonzero(cells != 0)
            below = np.append(0.0, np.cumsum(cells[held]))
            is_first = np.full(end, bool(self.logs))
            for each in ([0, 1, end - 1], held + 1, held + 2):
                is_first[each] = True
            places = np.flatnonzero(is_first)  # [R3] empty cells side by side are one, as often
            times = np.diff(places, append=end)
            first, last = below[np.searchsorted(held, [places - 1, places])]
            first[0], last[-1] = -np.inf, np.inf
            for j, (q, slack) in enumerate(self.ranks):
                chooser = self._chooser(q)
                weights = np.array(self.logs[j] if self.logs else 0.0)
                weights *= 2 * chooser.sensitivity / chooser.epsilon
                wanted = q * below[-1] + slack
                outside = np.maximum(first - wanted, wanted - last)  # [R1]
                chosen[i, j] = chooser.chosen(weights - np.maximum(outside, 0.0), times)
        return chosen


@dataclass(frozen=True, eq=False)
class SpanningTreeMechanism(Mechanism):
    """Choose the edges of trees of columns: pairs with large scores, one after the other.

    The score of a pair is ``||counts - reference||_1 - penalty``, with a public reference and a
    public penalty. Each choice is among the pairs that join two parts of what was chosen before
    (Kruskal), with probability proportional to ``exp(epsilon score / (2 D))``; where none is left,
    another tree begins among the pairs that were not chosen.

    Parameters
    ----------
    sensitivity : float
        D, by how much one unit changes the counts of one pair, added up over its cells: 1 where
        records are added or removed, 2 where one is replaced.
    epsilon : float
        Bounded range of one choice; infinity means the best pairs.
    n_choices : int
        Pairs to choose; fewer where no pair is left.
    pairs : tuple of (int, int)
        The candidates.
    references : tuple of ndarray
        What the counts of each pair are compared with: public, or released before.
    penalties : tuple of float
        Taken off the score of each pair.

    Privacy
    -------
    Unit and relation : those of the sensitivity; a record is counted once per pair.
    Released : the pairs, in the order in which they were chosen.
    Sensitivity : D of the counts of one pair, hence D of its score.
    Guarantee : `n_choices` releases of bounded range epsilon.
    Assumptions and numerics : candidates, references and penalties are public and rounded to whole
        numbers, so that scores are exact; so are the choices. Proof: docs/guarantees/label-tree.md.
    """

    sensitivity: float
    epsilon: float
    n_choices: int
    pairs: tuple[tuple[int, int], ...]
    references: tuple[Array, ...] = field(repr=False)
    penalties: tuple[float, ...] = field(repr=False)
    norm: ClassVar[int | str] = "part"

    def __post_init__(self) -> None:
        ExponentialMechanism(self.sensitivity, self.epsilon)  # refuses what no choice can have
        if self.n_choices < 1:
            raise InvalidInputError("At least one pair of columns must be chosen.")

    def event(self) -> Event:
        """Describe one release without data."""
        one = ExponentialMechanism(self.sensitivity, self.epsilon).event()  # [W3] one per pair
        return RepeatedEvent(one, self.n_choices)

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same choices."""
        return ExponentialMechanism(self.sensitivity, self.epsilon).variance()

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> Array:
        """Charge the ledger, then choose pairs by the counts of all, one after the other."""
        counts = np.ravel(as_statistic(value))
        sizes = [reference.size for reference in self.references]
        if counts.size != sum(sizes):
            raise InvalidInputError("The counts do not fit the candidates.")
        self._charge(ledger)
        away = [  # [W2] whole numbers: the sums are exact
            float(np.abs(table - np.rint(np.ravel(reference))).sum())
            for table, reference in zip(
                np.split(counts, np.cumsum(sizes)[:-1]), self.references, strict=True
            )
        ]
        scores = np.array(away) - np.rint(self.penalties)
        chooser = ExponentialMechanism(self.sensitivity, self.epsilon)
        return self._grown(scores, self.n_choices, self.pairs, chooser.chosen).astype(float)

    @classmethod
    def best(cls, scores: Array, n_choices: int, pairs: Pairs) -> Places:
        """Return the pairs of the largest scores, which are released: nothing is drawn."""
        return cls._grown(scores, n_choices, pairs, lambda each: int(np.argmax(each)))

    @staticmethod
    def _grown(
        scores: Array, n_choices: int, pairs: Pairs, choose: Callable[[Array], int]
    ) -> Places:
        ends, chosen = np.array(pairs, dtype=np.intp).reshape(-1, 2), []
        left, alone = np.ones(len(ends), dtype=bool), np.arange(ends.max(initial=0) + 1)
        part = alone.copy()
        for _ in range(min(n_choices, len(ends))):
            free = np.flatnonzero(left & (part[ends[:, 0]] != part[ends[:, 1]]))
            if not len(free):  # [W3] by released pairs: the next tree
                part, free = alone.copy(), np.flatnonzero(left)
            at = free[choose(scores[free])]
            first, second = ends[at]
            chosen.append((first, second))
            left[at] = False
            part[part == part[second]] = part[first]
        return np.array(chosen, dtype=np.intp).reshape(-1, 2)
