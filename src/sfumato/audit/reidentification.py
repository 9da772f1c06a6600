"""Can a released row be traced to the row it was made from: matching by the nearest row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import pairwise_distances_chunked

from sfumato.audit.attacks import DIAGNOSTIC, Estimate, MembershipAttack, attack_from_values
from sfumato.audit.empirical import check_confidence, interval
from sfumato.exceptions import InvalidInputError

METRICS = ("manhattan", "euclidean")


@dataclass(frozen=True)
class Reidentification:
    """How often the nearest row is the source of a released row.

    rate: Share of released rows whose nearest row is their source.
    chance: The share that a blind guess would have.
    median_rank: Median place of the source among all rows, by distance; 1 is the nearest.
    n_rows, n_released: Rows that could be the source, rows released.
    metric: The distance.
    closeness: Whether rows that were in the data lie nearer to the release than rows that were not.
    """

    rate: Estimate
    chance: float
    median_rank: float
    n_rows: int
    n_released: int
    metric: str
    closeness: MembershipAttack | None = None

    def __str__(self) -> str:
        found = (
            f"The nearest of {self.n_rows} rows is the source of a released row in a share of "
            f"{self.rate} of the cases (blind guess: {self.chance:.2g}); median rank of the source "
            f"{self.median_rank:g}."
        )
        near = "" if self.closeness is None else f" Closeness to the release: {self.closeness}"
        return f"{found}{near or ' ' + DIAGNOSTIC}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        close = None if self.closeness is None else self.closeness.to_dict()
        return {**vars(self), "rate": vars(self.rate), "closeness": close, "note": DIAGNOSTIC}


def reidentification(
    rows: ArrayLike,
    released: ArrayLike,
    *,
    sources: ArrayLike | None = None,
    non_members: ArrayLike | None = None,
    metric: str = "manhattan",
    confidence: float = 0.95,
) -> Reidentification:
    """Match every released row with the nearest row and count how often it is its source.

    Parameters
    ----------
    rows : array-like of shape (n_rows, n_features)
        The rows that the release was made from.
    released : array-like of shape (n_released, n_features)
        The released rows.
    sources : array-like of int, optional
        Number of the row that each released row was made from. By default the i-th was made from
        the i-th; for a release that has no such order the rate then shows what chance gives.
    non_members : array-like, optional
        Rows of the same kind that the release was not made from: whether members lie nearer to
        the release than these is told as well.
    metric : {"manhattan", "euclidean"}, default="manhattan"
        The distance; "manhattan" is the best one against Laplace noise.
    confidence : float, default=0.95
        Of the intervals.

    Returns
    -------
    Reidentification
        The rate with its interval, and the median rank of the source.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).random((100, 5))
    >>> reidentification(rows, rows + 0.001).rate.value
    1.0
    """
    check_confidence(confidence)
    if metric not in METRICS:
        raise InvalidInputError(f"'metric' must be one of {METRICS}. Got {metric!r} instead.")
    tables = {"rows": rows, "released": released}
    if non_members is not None:
        tables["non_members"] = non_members
    for name, given in tables.items():
        table = tables[name] = np.asarray(given, dtype=np.float64)
        if table.ndim != 2 or not len(table) or not np.isfinite(table).all():
            raise InvalidInputError(
                f"'{name}' must be a table of finite numbers with at least one row."
            )
    real, made = np.asarray(tables["rows"]), np.asarray(tables["released"])
    if real.shape[1] != made.shape[1]:
        raise InvalidInputError("'rows' and 'released' must have the same number of columns.")
    if sources is None and len(real) != len(made):
        raise InvalidInputError(
            f"'sources' is needed if the numbers of rows differ: {len(real)} rows, {len(made)} "
            "released."
        )
    places = np.arange(len(real)) if sources is None else np.asarray(sources)
    if places.shape != (len(made),) or places.min() < 0 or places.max() >= len(real):
        raise InvalidInputError("'sources' must name a row for each released row.")
    # Place of the source among all rows by distance; ties count against the attacker.
    found: list[NDArray[np.intp]] = []
    for distances in pairwise_distances_chunked(made, real, metric=metric):
        start = sum(map(len, found))
        mine = places[start : start + len(distances)].astype(np.intp)
        own = distances[np.arange(len(distances)), mine]
        found.append((distances <= own[:, None]).sum(axis=1))
    ranks = np.concatenate(found)
    closeness = None
    if non_members is not None:
        nearest = []
        for each in (real, tables["non_members"]):
            chunks = pairwise_distances_chunked(each, made, metric=metric)
            nearest.append(np.concatenate([distances.min(axis=1) for distances in chunks]))
        closeness = attack_from_values(
            *nearest, observation="distance to the nearest released row", confidence=confidence
        )
    hits = int((ranks == 1).sum())
    return Reidentification(
        rate=Estimate(hits / len(made), *interval(hits, len(made), confidence)),
        chance=1 / len(real),
        median_rank=float(np.median(ranks)),
        n_rows=len(real),
        n_released=len(made),
        metric=metric,
        closeness=closeness,
    )
