"""What an additive model says about each column: a curve, a band for the noise, an importance.

All of it is computed from released numbers and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from sfumato.models.additive.columns import PublicColumns

Array = NDArray[np.float64]

MAX_LISTED = 10  # pairs in a table; all of them are in `pairs`


@dataclass(frozen=True)
class ColumnCurve:
    """The curve of one column.

    Parameters
    ----------
    name : str
        Name of the column.
    values : tuple
        Knots in the units of the column (of dates, days), or its categories.
    curve : ndarray of shape (n_scores, n_values)
        What the column adds to each score there; 0 on average over the records. Linear between
        knots.
    band : ndarray of shape (n_scores, n_values)
        Half width of the band that covers the fit without noise, at all values together.
    missing, missing_band : ndarray of shape (n_scores,)
        What a missing cell adds, and its band.
    importance : float
        Root mean square of the curve over the records.
    is_number : bool
        Whether values are knots.
    """

    name: str
    values: tuple[Any, ...]
    curve: Array
    band: Array
    missing: Array
    missing_band: Array
    importance: float
    is_number: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        plain = dict(self.__dict__)
        for name in ("curve", "band", "missing", "missing_band"):
            plain[name] = getattr(self, name).tolist()
        values = [each.isoformat() if isinstance(each, date) else each for each in self.values]
        return {**plain, "values": values}


@dataclass(frozen=True)
class PairTerm:
    """What two columns add together, beyond their curves: ``weight * s_a * s_b``, less its mean.

    Each column has a number s from -1 to 1: the place of a number among its knots, the order of a
    category. So a positive weight raises the score where both are high or both are low.

    Parameters
    ----------
    names : tuple of str
        The two columns.
    weight : ndarray of shape (n_scores,)
        What is added where both are at the same end, and taken where they are at opposite ends.
    band : ndarray of shape (n_scores,)
        Half width of the band that covers the weight without noise, for all pairs together.
    mean : float
        Released mean of the product, over the records.
    importance : float
        Root mean square of what the pair adds, over the records.
    """

    names: tuple[str, str]
    weight: Array
    band: Array
    mean: float
    importance: float

    @property
    def name(self) -> str:
        """Both columns."""
        return " × ".join(self.names)

    @property
    def is_seen(self) -> bool:
        """Whether some weight lies beyond its band: more than noise alone would make of it."""
        return bool(np.any(np.abs(self.weight) > self.band))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        Returns
        -------
        dict
            By the names of the attributes.
        """
        lists = {"weight": self.weight.tolist(), "band": self.band.tolist()}
        return {**self.__dict__, "names": list(self.names), **lists, "is_seen": self.is_seen}


@dataclass(frozen=True)
class Explanation:
    """The curves of all columns, the most important first, and what pairs of columns add.

    Parameters
    ----------
    curves : tuple of ColumnCurve
        One per column.
    scores : tuple of str
        What each score is: a class, or the target.
    coverage : float
        Chance with which the band of a column covers its noiseless curve, at least.
    pairs : tuple of PairTerm
        What pairs of columns add, the most important first; empty for a purely additive model.
    """

    curves: tuple[ColumnCurve, ...]
    scores: tuple[str, ...]
    coverage: float
    pairs: tuple[PairTerm, ...] = ()

    note = (
        "The bands show the effect of the noise on the gradients: they cover the curves that the "
        "same training from the same knots would find without it. They do not include sampling "
        "error, that is, how much other records of the same kind would change the curves."
    )

    def __getitem__(self, name: str) -> ColumnCurve:
        return {each.name: each for each in self.curves}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON.

        Returns
        -------
        dict
            Curves, scores, coverage and what bands mean.
        """
        return {
            "curves": [each.to_dict() for each in self.curves],
            "pairs": [each.to_dict() for each in self.pairs],
            "scores": list(self.scores),
            "coverage": self.coverage,
            "note": self.note,
        }

    def summary(self) -> list[tuple[str, float, float, float, float]]:
        """Return one line per column and per pair beyond noise, the most important first.

        Returns
        -------
        list of tuple
            Name, importance, least and most that it adds to any score, widest half band.
        """
        lines = [
            (
                each.name,
                each.importance,
                float(each.curve.min()),
                float(each.curve.max()),
                float(each.band.max()),
            )
            for each in self.curves
        ]
        for pair in self.pairs[:MAX_LISTED]:
            if pair.is_seen:
                ends = np.outer(pair.weight, (1 - pair.mean, -1 - pair.mean))
                low, high = float(ends.min()), float(ends.max())
                lines.append((pair.name, pair.importance, low, high, float(pair.band.max())))
        return sorted(lines, key=lambda line: -line[1])

    def __str__(self) -> str:
        width = max(len(line[0]) for line in self.summary())
        lines = [f"{'column':{width}}  importance   from   to   band (half width)"]
        lines += [
            f"{name:{width}}  {importance:10.3g}  {low:.3g}  {high:.3g}  {band:.3g}"
            for name, importance, low, high, band in self.summary()
        ]
        return "\n".join([*lines, self.note])


def explained(
    columns: PublicColumns,
    slices: tuple[slice, ...],
    knots: Array,
    coef: Array,
    factor: Array,
    means: Array,
    *,
    scores: tuple[str, ...],
    coverage: float,
    doubt: float = 0.0,
) -> Explanation:
    """Make the curves from released numbers."""
    numeric = iter(knots)
    curves = []
    for i, part in enumerate(slices):
        categories = columns.categories[i]
        values: tuple[Any, ...] = categories or ()
        if categories is None:
            values = columns.values(i, next(numeric))
        share, weights, noise = means[part], coef[:, part], factor[part]
        level = weights @ share
        curve = weights - level[:, None]
        spread = np.sqrt(np.sum((noise - share @ noise) ** 2, axis=1))
        # Bonferroni over the knots: between them curve and band are linear.
        times = float(norm.ppf(1 - (1 - coverage) / (2 * max(1, len(values)))))
        band = times * np.sqrt(spread**2 + (doubt * curve) ** 2)
        missing_spread = float(np.linalg.norm(share @ noise))
        curves.append(
            ColumnCurve(
                columns.names[i],
                values,
                curve,
                band,
                -level,
                times * np.sqrt(missing_spread**2 + (doubt * level) ** 2),
                math.sqrt(float(np.mean(curve**2 @ share))),
                categories is None,
            )
        )
    ordered = sorted(curves, key=lambda each: -each.importance)
    return Explanation(tuple(ordered), scores, coverage)


def explained_pairs(
    names: tuple[str, ...],
    pairs: NDArray[np.intp],
    coef: Array,
    noise: Array,
    means: Array,
    deviations: Array,
    *,
    coverage: float,
    doubt: float = 0.0,
) -> tuple[PairTerm, ...]:
    """Return what pairs add, from released numbers."""
    times = float(norm.ppf(1 - (1 - coverage) / (2 * max(1, len(pairs)))))
    terms = []
    for i, (a, b) in enumerate(pairs.tolist()):
        spread = float(np.linalg.norm(noise[i]))
        band = times * np.sqrt(spread**2 + (doubt * coef[:, i]) ** 2)
        size = math.sqrt(float(np.mean(coef[:, i] ** 2))) * float(deviations[i])
        terms.append(PairTerm((names[a], names[b]), coef[:, i], band, float(means[i]), size))
    return tuple(sorted(terms, key=lambda each: -each.importance))
