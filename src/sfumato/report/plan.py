"""What a budget costs and how much noise it means, from public numbers alone; no row is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.events import GaussianEvent
from sfumato.privacy.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.privacy.guarantee import Guarantee, Relation


@dataclass(frozen=True)
class Plan:
    """What a budget means; every figure is exact.

    Parameters
    ----------
    n_rows : int
        Records, or a public guess at their number.
    epsilon, delta : float
        The budget.
    relation : str
        Which data sets count as neighbours.
    noise_multiplier : float
        Standard deviation of the Gaussian noise on a sum that one record changes by 1.
    guesses_right : float
        How often the best attacker is right about one record, from even odds.
    finds : float
        Share of the members that the attacker finds at 1 % of false alarms.
    count_noise : float
        Standard deviation of the noise on each count of one histogram.
    mean_noise : float
        Standard deviation of the noise on the mean of each column, as a share of its range, if the
        means of all columns are released together.
    column_noise : mapping of str to float
        The same in the units of each column.
    """

    n_rows: int
    epsilon: float
    delta: float
    relation: str
    noise_multiplier: float
    guesses_right: float
    finds: float
    count_noise: float
    mean_noise: float
    column_noise: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        return asdict(self)


def plan(
    n_rows: int,
    n_columns: int = 1,
    *,
    epsilon: float,
    delta: float = 1e-6,
    relation: str = "replace_one",
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Plan:
    """Return what a budget means before anything is spent; no record is read.

    Parameters
    ----------
    n_rows : int
        Records, or a public guess at their number.
    n_columns : int, default=1
        Columns whose means are released together.
    epsilon, delta : float
        The budget; delta is above 0.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    ranges : mapping of str to (float, float), optional
        Ranges of some of the columns, for the noise in their own units.

    Returns
    -------
    Plan
        The figures.

    Examples
    --------
    >>> from sfumato.report import plan
    >>> found = plan(5000, 2, epsilon=1.0, delta=1e-5, ranges={"age": (0, 110)})
    >>> round(found.noise_multiplier, 2), round(found.column_noise["age"], 3)
    (3.73, 0.116)
    """
    _check(n_rows=n_rows, n_columns=n_columns)
    mu = mu_from_budget(float(epsilon), float(delta))
    events = (GaussianEvent(1 / mu),)
    attacker = Guarantee(epsilon, delta, relation=Relation(relation), events=events).attacker
    noise = _mean_change(n_columns, relation) / (n_rows * mu)
    return Plan(
        n_rows=n_rows,
        epsilon=float(epsilon),
        delta=float(delta),
        relation=str(relation),
        noise_multiplier=1 / mu,
        guesses_right=attacker.guesses_right,
        finds=attacker.finds,
        count_noise=(math.sqrt(2) if Relation(relation) is Relation.REPLACE_ONE else 1.0) / mu,
        mean_noise=noise,
        column_noise={name: (top - low) * noise for name, (low, top) in (ranges or {}).items()},
    )


def rows_needed(
    error: float,
    n_columns: int = 1,
    *,
    epsilon: float,
    delta: float = 1e-6,
    relation: str = "replace_one",
) -> int:
    """Return the number of records at which the noise of column means falls to an error.

    Parameters
    ----------
    error : float
        Standard deviation of the noise that is accepted, as a share of a column's range.
    n_columns : int, default=1
        Columns whose means are released together.
    epsilon, delta : float
        The budget.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.

    Returns
    -------
    int
        Records.
    """
    _check(error=error, n_columns=n_columns)
    mu = mu_from_budget(float(epsilon), float(delta))
    return math.ceil(_mean_change(n_columns, relation) / (error * mu))


def epsilon_needed(
    error: float,
    n_rows: int,
    n_columns: int = 1,
    *,
    delta: float = 1e-6,
    relation: str = "replace_one",
) -> float:
    """Return the epsilon at which the noise of column means falls to an error.

    Parameters
    ----------
    error : float
        Standard deviation of the noise that is accepted, as a share of a column's range.
    n_rows, n_columns : int
        Records, and columns whose means are released together.
    delta : float, default=1e-6
        Of the budget.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.

    Returns
    -------
    float
        Epsilon.
    """
    _check(error=error, n_rows=n_rows, n_columns=n_columns)
    return epsilon_from_mu(_mean_change(n_columns, relation) / (error * n_rows), float(delta))


def _mean_change(n_columns: int, relation: str) -> float:
    """How far one record moves the sums of columns that lie in [-1/2, 1/2], in Euclidean norm."""
    step = 1.0 if Relation(relation) is Relation.REPLACE_ONE else 0.5
    return step * math.sqrt(n_columns)


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        if not value > 0:
            raise InvalidInputError(f"'{name}' must be above 0. Got {value!r}.")
