"""Pairs of columns that stand out, one after the other, each by the exponential mechanism."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import Mechanism, as_statistic
from sfumato.mechanisms.exponential import ExponentialMechanism
from sfumato.privacy.events import Event, RepeatedEvent

Array = NDArray[np.float64]
Places = NDArray[np.intp]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class ColumnPairsMechanism(Mechanism):
    """Choose pairs of columns with large scores, among those that earlier choices leave.

    The score of a pair is ``||counts - reference||_1 - penalty``, with a public reference and a
    public penalty. Pair by pair, one is chosen among those that the kind of the mechanism still
    allows, with probability proportional to ``exp(epsilon score / (2 D))``.

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
        """Describe one release without data.

        Returns
        -------
        Event
            What a ledger writes down.
        """
        one = ExponentialMechanism(self.sensitivity, self.epsilon).event()  # [W3] one per pair
        return RepeatedEvent(one, self.n_choices)

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same choices.

        Returns
        -------
        float
            The variance.
        """
        return ExponentialMechanism(self.sensitivity, self.epsilon).variance()

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.float64]:
        """Charge the ledger, then choose the pairs.

        Parameters
        ----------
        value : array-like
            The exact counts of all pairs, one after the other.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray of shape (n_chosen, 2)
            The pairs, as the candidates name them.
        """
        counts = np.ravel(as_statistic(value))
        sizes = [reference.size for reference in self.references]
        if counts.size != sum(sizes):
            raise InvalidInputError("The counts do not fit the candidates.")
        self._charge(ledger)
        chooser = ExponentialMechanism(self.sensitivity, self.epsilon)
        scores = self._scores(np.split(counts, np.cumsum(sizes)[:-1]))
        chosen = self._one_by_one(scores, self.n_choices, self.pairs, chooser.chosen)
        return np.asarray(chosen, dtype=float)

    @classmethod
    def best(cls, scores: Array, n_choices: int, pairs: Pairs) -> Places:
        """Return the pairs of the largest scores, which are released: nothing is drawn.

        Parameters
        ----------
        scores : ndarray of shape (n_pairs,)
            Released scores.
        n_choices : int
            Pairs to choose.
        pairs : tuple of (int, int)
            The candidates.

        Returns
        -------
        ndarray of int of shape (n_chosen, 2)
            The pairs.
        """
        return cls._one_by_one(scores, n_choices, pairs, lambda each: int(np.argmax(each)))

    @classmethod
    def _one_by_one(
        cls, scores: Array, n_choices: int, pairs: Pairs, choose: Callable[[Array], int]
    ) -> Places:
        chosen: list[int] = []
        for _ in range(n_choices):
            free = cls.allowed(pairs, chosen)  # [W3] by released pairs alone
            if not len(free):
                break
            chosen.append(int(free[choose(scores[free])]))
        return np.array([pairs[number] for number in chosen], dtype=np.intp).reshape(-1, 2)

    @staticmethod
    @abstractmethod
    def allowed(pairs: Pairs, chosen: Sequence[int]) -> Places:
        """Return the candidates that may be chosen next.

        Parameters
        ----------
        pairs : tuple of (int, int)
            The candidates.
        chosen : sequence of int
            Numbers of the pairs so far.

        Returns
        -------
        ndarray of int
            Numbers of candidates.
        """

    def _scores(self, counts: Sequence[Array]) -> Array:
        """Distance of each table from its reference, less the penalty."""
        away = [  # [W2] whole numbers: the sums are exact
            float(np.abs(table - np.rint(np.ravel(reference))).sum())
            for table, reference in zip(counts, self.references, strict=True)
        ]
        return np.asarray(np.array(away) - np.rint(self.penalties))


class SpanningTreeMechanism(ColumnPairsMechanism):
    """Choose the edges of a tree: pairs that join two parts of what was chosen before (Kruskal).

    The candidates must connect all columns; `n_choices` is the number of columns less one.

    Parameters
    ----------
    sensitivity, epsilon : float
        Of one choice, as in `ColumnPairsMechanism`; so are the others.
    n_choices : int
        Pairs to choose.
    pairs : tuple of (int, int)
        The candidates.
    references : tuple of ndarray
        What the counts of each pair are compared with.
    penalties : tuple of float
        Taken off the score of each pair.

    Privacy
    -------
    Unit and relation : those of the sensitivity; a record is counted once per pair.
    Released : the pairs, in the order in which they were chosen.
    Sensitivity : D of the counts of one pair, hence D of its score.
    Guarantee : `n_choices` releases of bounded range epsilon.
    Assumptions and numerics : as in `ColumnPairsMechanism`. Proof: docs/guarantees/label-tree.md.
    """

    @staticmethod
    def allowed(pairs: Pairs, chosen: Sequence[int]) -> Places:
        """Return the pairs whose columns are not joined yet."""
        ends = np.array(pairs)
        part = np.arange(ends.max() + 1)
        for first, second in ends[list(chosen)]:
            part[part == part[second]] = part[first]
        return np.flatnonzero(part[ends[:, 0]] != part[ends[:, 1]])


class SecondParentsMechanism(ColumnPairsMechanism):
    """Choose further parents for columns of a tree: pairs (column, parent), one for each column.

    Parameters
    ----------
    sensitivity, epsilon : float
        Of one choice, as in `ColumnPairsMechanism`; so are the others.
    n_choices : int
        Pairs to choose.
    pairs : tuple of (int, int)
        The candidates.
    references : tuple of ndarray
        What the counts of each pair are compared with.
    penalties : tuple of float
        Taken off the score of each pair.

    Privacy
    -------
    Unit and relation : those of the sensitivity; a record is counted once per pair.
    Released : the pairs, in the order in which they were chosen.
    Sensitivity : D of the counts of one pair, hence D of its score.
    Guarantee : `n_choices` releases of bounded range epsilon.
    Assumptions and numerics : as in `ColumnPairsMechanism`. Proof: docs/guarantees/label-tree.md.
    """

    @staticmethod
    def allowed(pairs: Pairs, chosen: Sequence[int]) -> Places:
        """Return the pairs whose first column has no second parent yet."""
        columns = np.array(pairs)[:, 0]
        return np.flatnonzero(~np.isin(columns, columns[list(chosen)]))
