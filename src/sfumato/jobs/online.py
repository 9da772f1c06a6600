"""The density of one column as a function that is asked point by point.

Charged once, when it begins. The rows stay where they are; whoever answers reads them again, and
every answer is on disk before it is given (`sfumato.functions.OnlineFunction`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.composition import epsilon_spent
from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.functions import OnlineFunction, release_function
from sfumato.functions.domain import Domain
from sfumato.functions.sensitivity import feature_sum_sensitivity
from sfumato.functions.store import AnswerStore
from sfumato.guarantee import Guarantee, Relation, Unit
from sfumato.jobs.pipeline import PrivacyRequest
from sfumato.jobs.publishing import chosen_columns
from sfumato.kernels import ExponentialKernel
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import noise_status
from sfumato.tables.bounds import Bounds
from sfumato.tables.facts import Feature
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

__all__ = ["answer_online", "begin_online", "online_domain", "require_answers"]

Array = NDArray[np.float64]
MOST_ROWS = 500_000  # up to which the condition of the sheet on rounding errors of f holds
USUAL_SHARE = 20  # the bandwidth, where none is given, is the range divided by this


def begin_online(
    source: TableFile,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    column: str,
    bandwidth: float | None = None,
    store: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Guarantee:
    """Charge for the density of a column, and write down that it may be asked.

    ``f(x) = (1 / n) sum_i k((x - x_i) / bandwidth) / (2 bandwidth)`` with ``k(t) = exp(-|t|)``.

    source: The rows.
    bounds: Confirmed public bounds; the column must be a number.
    promise: Budget and ledger; unit "record" and relation "replace_one".
    bandwidth: In units of the column; by default a twentieth of its range.
    store, name: Where answers will be kept, and under which name.
    Returns: For all answers together.
    """
    if Unit(promise.unit) is not Unit.RECORD or Relation(promise.relation) is not (
        Relation.REPLACE_ONE
    ):
        raise InvalidInputError(
            "A function that answers queries protects only a record that is replaced. Request a "
            "density, which also protects persons, and records that are added or removed."
        )
    density, sensitivity = _density(source, bounds, column, bandwidth)
    mechanism = GaussianProcessMechanism.calibrate(
        sensitivity=sensitivity, epsilon=promise.epsilon, delta=promise.delta
    )
    release_function(
        density,
        kernel=ExponentialKernel(1 / density.width),
        mechanism=mechanism,
        form="online",
        domain=online_domain(bounds, column),
        store=store,
        name=name,
        ledger=promise.ledger,
    )
    event = mechanism.event()
    return Guarantee(
        epsilon=max(promise.epsilon, epsilon_spent([event], promise.delta)),
        delta=promise.delta,
        unit=Unit.RECORD,
        relation=Relation.REPLACE_ONE,
        status=noise_status(),
        public=("bounds of the column", "bandwidth", "number of rows", "points that are asked"),
        events=(event,),
    )


def answer_online(
    source: TableFile,
    bounds: TableBounds,
    points: Sequence[float],
    *,
    column: str,
    bandwidth: float | None = None,
    store: str | os.PathLike[str],
    name: str,
) -> list[float]:
    """Answer points by a function that was begun; nothing is charged.

    source, bounds, column, bandwidth: As they were when it began: those of other rows are another
        release.
    points: Points of the column's range.
    store, name: Where answers are kept, and under which name.
    Returns: An answer per point; on disk by now.
    """
    density, _ = _density(source, bounds, column, bandwidth)
    function = OnlineFunction.resume(density, store=store, name=name)
    return [float(value) for value in function(np.asarray(points, dtype=np.float64)[:, None])]


def require_answers(
    store: str | os.PathLike[str],
    name: str,
    points: Sequence[Sequence[float]],
    given: Sequence[float],
) -> None:
    """Refuse a store that has lost answers which were given: they would be drawn a second time.

    store, name: Where answers are kept, and under which name.
    points, given: Points, and the answers that were given to somebody.
    """
    book = AnswerStore(store).open(name)
    header = book.header()
    box = Bounds(lower=header["lower"], upper=header["upper"])
    keys = Domain(box, len(header["lower"]), bits=header["bits"]).keys(np.asarray(points))
    kept = book.answers()
    if any(kept.get(key) != answer for key, answer in zip(keys, given, strict=True)):
        raise StoredModelError(f"The store has lost answers of '{name}', or is an older copy.")


def online_domain(bounds: TableBounds, column: str) -> Bounds:
    """Give the public box in which the density of a column may be asked."""
    feature = _feature(bounds, column)
    return Bounds(lower=[feature.lower], upper=[feature.upper])


def _feature(bounds: TableBounds, column: str) -> Feature:
    return chosen_columns(bounds, (column,), "function").features[0]


def _density(
    source: TableFile, bounds: TableBounds, column: str, bandwidth: float | None
) -> tuple[_Density, float]:
    """Give f, and how far one record moves it in the norm of its kernel."""
    feature = _feature(bounds, column)
    width = (feature.upper - feature.lower) / USUAL_SHARE if bandwidth is None else bandwidth
    if not 0 < width <= feature.upper - feature.lower:
        raise InvalidInputError("'bandwidth' must be positive, and not wider than the range.")
    table = source.declared(bounds.types(), bounds.text).read([column])
    cells: Array = feature.cells(table[column])
    if len(cells) > MOST_ROWS:
        raise InvalidInputError(
            f"A function that answers queries takes at most {MOST_ROWS:,} rows."
        )
    height = 0.5 / width / len(cells)
    # A missing cell is a term of 0, which lies nearer to every other than two of them do.
    density = _Density(cells[~np.isnan(cells)], width, height)
    return density, feature_sum_sensitivity(Relation.REPLACE_ONE) * height


@dataclass(frozen=True)
class _Density:
    """``x -> height sum_i exp(-|x - x_i| / width)``, added up in extended precision."""

    cells: Array
    width: float
    height: float

    def __call__(self, X: Array) -> Array:
        """Evaluate at rows of one number."""
        sums = [
            np.exp(np.abs(x - self.cells) / -self.width).sum(dtype=np.longdouble) for x in X[:, 0]
        ]
        return np.asarray([float(one * self.height) for one in sums])
