"""A lower bound on the epsilon of a private estimator, from fits on the worst two neighbours.

What a private estimator has learned is computed from released values alone; the taint test shows
it, to the bit. So it is enough to attack the released values, and each run may stop at its last
release. The attack is the best one there is: the sum of the log-ratios of the releases. Where the
taint test fails, all that was learned is attacked instead.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import check_random_state, get_tags

from sfumato.audit.empirical import EmpiricalEpsilon, epsilon_from_outputs
from sfumato.audit.testing.case import fit, rows_of_a_person
from sfumato.audit.testing.inspection import equal_to_the_bit, leaves
from sfumato.audit.testing.taint import compare_replays
from sfumato.core.arrays import to_numpy
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    LaplaceMechanism,
)
from sfumato.mechanisms.base import Released, Tape, taped
from sfumato.mechanisms.objective import GammaObjectiveMechanism, ObjectiveMechanism
from sfumato.privacy.events import GaussianEvent, flatten
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds

WIDTHS = (2, 3, 8, 32, 128)  # numbers of features tried, the least first
DRAWS, FITS = 5_000, 400  # usual runs: where noise alone is drawn again, where each run is a fit
MIN_RUNS = 20  # runs on each side, however long they take


@dataclass(frozen=True)
class TwoPoint:
    """What an audit of a private estimator on two neighbours has found.

    guarantee: What the estimator promises.
    bound: What was certified.
    leak: What the taint test says: None if nothing after the releases reads the rows.
    attacked ({"released values", "learned values"}): What the bound was found on.
    """

    guarantee: Guarantee
    bound: EmpiricalEpsilon
    leak: str | None
    attacked: str

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        return {**self.bound.to_dict(), "leak": self.leak, "attacked": self.attacked}


def two_point(
    estimator: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    edge: ArrayLike | None = None,
    n_runs: int | None = None,
    seconds: float = 20.0,
    confidence: float = 0.99,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> TwoPoint:
    """Certify a lower bound on the epsilon of a private estimator; see `sfumato.audit.audit`."""
    model = _fixed(estimator)
    model._check_request()
    if not np.isfinite(model.epsilon):
        raise InvalidInputError("'epsilon' is infinite: nothing is promised, so nothing to audit.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "delta=")  # the rows are few and mean nothing
        warnings.simplefilter("ignore", RefutedGuaranteeWarning)
        around = _around(model, X, y, edge)
        attack = _Attack.prepare(model, around)
        leak = attack.leak()
        if leak is not None:
            attack = attack.where_it_shows(around)
        run, usual = attack.way(leak)
        n_runs = _affordable(run, usual, seconds) if n_runs is None else n_runs
        title = "auditing" if verbose else None
        outputs = [
            map_in_parallel(partial(run, side), range(n_runs), n_jobs=n_jobs, progress=title)
            for side in (0, 1)
        ]
    promise = attack.guarantee
    claimed = promise.claimed_epsilon if promise.epsilon is None else promise.epsilon
    options: dict[str, Any] = {"delta": promise.delta, "confidence": confidence}
    if leak is None and _is_gaussian(promise):
        # The midpoint of two Gaussians is known beforehand, and so all runs certify.
        options |= {"method": "gaussian", "threshold": 0.0}
    bound = epsilon_from_outputs(*outputs, **options, claimed=claimed)
    attacked = "learned values" if leak else "released values"
    return TwoPoint(promise, bound, leak, attacked)


def _affordable(run: Callable[[int, int], Any], usual: int, seconds: float) -> int:
    """Return the number of runs per side that fit into the time; it does not depend on outputs."""
    start = time.perf_counter()
    run(0, 0)
    each = time.perf_counter() - start
    return int(min(usual, max(MIN_RUNS, seconds / (2 * each))))


def _fixed(estimator: Any) -> Any:
    """Clone without ledger, and with public randomness fixed: an attacker knows it too."""
    model = clone(estimator).set_params(ledger=None)
    if "random_state" in model.get_params(deep=False) and model.random_state is None:
        model.set_params(random_state=0)
    return model


def _is_gaussian(promise: Guarantee) -> bool:
    events = flatten(promise.events)
    return bool(events) and all(isinstance(event, GaussianEvent) for event in events)


def _around(model: Any, X: Any, y: Any, edge: Any) -> Neighbourhood:
    """Return the neighbourhood; without rows, one of the fewest features that can be fitted."""
    edge = None if edge is None else np.asarray(edge)
    if X is not None:
        return Neighbourhood(model, np.asarray(X), None if y is None else np.asarray(y), edge)
    listed = model.array_bounds.lower if model.bounds is not None else None
    widths = (len(listed),) if isinstance(listed, tuple) else WIDTHS
    for width in widths:
        try:
            data = pattern(model, width)
            fit(clone(model), *data)
        except InvalidInputError as error:
            refusal = error
        else:
            return Neighbourhood(model, *data, edge)
    raise InvalidInputError(
        f"No data for an audit could be made from the bounds; give 'X' and 'y'. {refusal}"
    )


@dataclass(frozen=True)
class _Attack:
    """An estimator, two neighbours, and the exact statistics of one run on each."""

    model: Any
    data: tuple[Data, Data]
    guarantee: Guarantee
    tape: Tape
    n_releases: int

    @classmethod
    def prepare(cls, model: Any, around: Neighbourhood) -> _Attack:
        members = around.members()
        promise = fit(clone(model), *members[0]).guarantee_  # on tape it would read "testing"
        with taped() as tape:
            fit(clone(model), *members[0])
        if not tape.releases:
            raise InvalidInputError(
                f"{type(model).__name__} releases nothing in 'fit' as it is set: there is nothing "
                "to audit."
            )
        attack = cls(model, (members[0], members[0]), promise, tape, len(tape.releases))
        found = [attack.statistics(data, tape) for data in members]
        i, j = max(
            around.pairs(len(members)), key=lambda pair: separation(found[pair[0]], found[pair[1]])
        )
        return replace(attack, data=(members[i], members[j]))

    def leak(self) -> str | None:
        """Return what reads the rows after the releases, if anything does.

        Tried on the neighbours, and on data that differ in every row and in secret labels.
        """
        (X, y), near = self.data
        middle = X.mean(axis=0)
        is_public = Unit(self.model.unit) is Unit.ENTRY
        y_far = y if y is None or is_public else np.roll(y, 1)
        far = middle + (X[::-1] - middle) / 100, y_far
        try:
            compare_replays(self.model, (X, y), (near, far))
        except AssertionError as sentence:
            return str(sentence)
        return None

    def where_it_shows(self, around: Neighbourhood) -> _Attack:
        """Return the attack on the pair whose learned values differ most, releases held fixed."""
        members = around.members()
        learned = []
        for data in members:
            with taped(self.tape):
                learned.append(learned_numbers(fit(clone(self.model), *data)))
        sizes = np.abs(np.stack(learned)).max(axis=0) + np.finfo(float).tiny
        i, j = max(
            around.pairs(len(members)),
            key=lambda pair: float(np.max(np.abs(learned[pair[0]] - learned[pair[1]]) / sizes)),
        )
        return replace(self, data=(members[i], members[j]))

    def way(self, leak: str | None) -> tuple[Callable[[int, int], Any], int]:
        """Return the attack on one run of a side, and the usual number of runs."""
        if leak is not None:
            return self.on_learned_values, FITS
        exact = [self.statistics(data, self.tape) for data in self.data]
        again = [self.statistics(data, None) for data in self.data]
        if any(_differ(a, b) for a, b in zip(exact, again, strict=True)):
            return self.on_releases, FITS
        return partial(_on_redrawn, exact), DRAWS

    def statistics(self, data: Data, playback: Tape | None) -> Sequence[Released]:
        """Run up to the last release, with outputs drawn or played back."""
        with taped(playback) as tape:
            tape.releases = _UpTo(self.n_releases)
            with suppress(_LastReleaseError):
                fit(clone(self.model), *data)
        return tape.releases

    def on_releases(self, side: int, _: int) -> float:
        """Attack one run by its log-ratio, positive under the first data set."""
        mine = self.statistics(self.data[side], None)
        theirs = self.statistics(self.data[1 - side], Tape(releases=list(mine)))
        ratio = log_ratio(mine, theirs)
        return ratio if side == 0 else -ratio

    def on_learned_values(self, side: int, _: int) -> NDArray[np.float64]:
        """Return all numbers that one fit has learned."""
        return learned_numbers(fit(clone(self.model), *self.data[side]))


def _differ(first: Sequence[Released], second: Sequence[Released]) -> bool:
    """Whether the statistics of a run may depend on what was released before."""
    return any(
        a.statistic.dtype.hasobject  # an objective is not a number that noise is added to
        or not equal_to_the_bit(a.statistic, b.statistic)
        or a.mechanism != b.mechanism
        for a, b in zip(first, second, strict=True)
    )


def _on_redrawn(exact: Sequence[Sequence[Released]], side: int, _: int) -> float:
    """Draw the noise of all releases again and return the log-ratio."""
    mine = [
        replace(r, output=getattr(r.mechanism, r.method)(r.statistic, ledger=None))
        for r in exact[side]
    ]
    ratio = log_ratio(mine, exact[1 - side])
    return ratio if side == 0 else -ratio


class _LastReleaseError(Exception):
    """Nothing after this release can tell more about the rows."""


class _UpTo(list[Released]):
    """A list of releases that ends the run when it is full."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def append(self, released: Released) -> None:
        super().append(released)
        if len(self) >= self.most:
            raise _LastReleaseError


def learned_numbers(fitted: Any) -> NDArray[np.float64]:
    """Return all learned numbers of a fitted estimator in a row, those of parts included."""
    learned = {k: v for k, v in vars(fitted).items() if k.endswith("_") and k != "guarantee_"}
    found = [np.ravel(to_numpy(value)) for _, value in leaves(learned)]
    numbers = [each.astype(np.float64) for each in found if each.dtype.kind in "biuf"]
    return np.nan_to_num(np.concatenate(numbers)) if numbers else np.zeros(1)


# Pairs of neighbouring data sets for an audit, made from public bounds alone ----------------------

Data = tuple[NDArray[Any], NDArray[Any] | None]
N_ROWS = 24


@dataclass(frozen=True)
class Neighbourhood:
    """Data sets that differ in their last row or person, by an estimator's relation and unit.

    estimator (PrivateEstimator): Its bounds, unit, relation and entry bound say what a neighbour
        is.
    X: Rows around the changed ones; the last, or those of the last person, are replaced.
    y: Labels or targets.
    edge: Rows to put in the last place; by default rows on the edge of the bounds.
    """

    estimator: Any
    X: NDArray[Any]
    y: NDArray[Any] | None = None
    edge: NDArray[Any] | None = None

    def members(self) -> list[Data]:
        """Return the data sets; which of them are neighbours, `pairs` says."""
        if Unit(self.estimator.unit) is Unit.ENTRY:
            return [self._with(row, None) for row in self._one_entry_moved()]
        rows = self._edge_rows() if self.edge is None else self.edge
        labels = [None] if self.y is None else list(np.unique(self.y)[[0, -1]])
        changed = [self._with(row, label) for row in rows for label in dict.fromkeys(labels)]
        if Relation(self.estimator.relation) is Relation.REPLACE_ONE:
            return changed
        last = slice(-rows_of_a_person(self.estimator))
        return [(self.X[last], None if self.y is None else self.y[last]), *changed]

    def pairs(self, n_members: int) -> Iterator[tuple[int, int]]:
        """Return the numbers of neighbours among `members`."""
        replaced = Relation(self.estimator.relation) is Relation.REPLACE_ONE
        if replaced or Unit(self.estimator.unit) is Unit.ENTRY:
            return combinations(range(n_members), 2)
        return ((i, 0) for i in range(1, n_members))

    def _edge_rows(self) -> NDArray[np.float64]:
        bounds: Bounds = self.estimator.array_bounds
        centre, radius = bounds.ball(self.X.shape[1])
        axes = np.eye(self.X.shape[1])[:2]
        far = np.vstack([axes, -axes, axes.sum(axis=0), -axes.sum(axis=0)]) * 2 * radius
        every = np.full((2, len(centre)), [[2 * radius], [-2 * radius]])
        return np.vstack([bounds.clip(centre + np.vstack([far, every])), centre])

    def _one_entry_moved(self) -> NDArray[np.float64]:
        bounds: Bounds = self.estimator.array_bounds
        n_features = self.X.shape[1]
        box = bounds.box(n_features)
        low = self.X[-1] if box is None else np.append(box[0][:1], self.X[-1][1:])
        moved = low.copy()
        moved[0] += self.estimator.entry_bound or bounds.entry_diameter(n_features=n_features)
        return np.vstack([low, moved])

    def _with(self, row: NDArray[Any], label: Any) -> Data:
        k = rows_of_a_person(self.estimator)
        X = np.vstack([self.X[:-k], *[row] * k])
        if self.y is None:
            return X, None
        y = self.y.copy()
        if label is not None:
            y[-k:] = label
        return X, y


def pattern(estimator: Any, n_features: int, n_rows: int = N_ROWS) -> Data:
    """Return rows inside the bounds and, where the estimator asks for them, labels or targets."""
    n_rows = max(3, n_rows // rows_of_a_person(estimator)) * rows_of_a_person(estimator)
    bounds: Bounds = estimator.array_bounds
    centre, radius = bounds.ball(n_features)
    spread = check_random_state(0).standard_normal((n_rows, n_features))
    rows = bounds.clip(centre + 0.5 * radius * spread / np.sqrt(n_features))
    if is_regressor(estimator):
        low, high = getattr(estimator, "target_bounds", None) or (0.0, 1.0)
        return rows, np.linspace(low, high, n_rows)
    with_labels = is_classifier(estimator) or get_tags(estimator).target_tags.required
    if not with_labels and bounds.labels is None:
        return rows, None
    labels = [0, 1] if bounds.labels in (None, PUBLIC_LABELS) else sorted(bounds.labels)
    return rows, np.resize(np.asarray(labels), n_rows)


# How much more likely a released value is under one data set than under another -------------------

CERTAIN = 1e3  # stands for an infinite log-ratio


def log_ratio(here: Sequence[Released], there: Sequence[Released]) -> float:
    """Sum the log-ratios of all releases of a run; exact for the laws of this library."""
    return sum(
        _of_one(mine, mine.output, theirs.statistic)
        for mine, theirs in zip(here, there, strict=True)
    )


def separation(here: Sequence[Released], there: Sequence[Released]) -> float:
    """Return the log-ratio of a run whose noise is zero: how far apart the two data sets lie."""
    return sum(
        _gradient_gap(mine, theirs)
        if isinstance(mine.mechanism, ObjectiveMechanism)
        else abs(_of_one(mine, _noiseless(mine), theirs.statistic))
        for mine, theirs in zip(here, there, strict=True)
    )


def _noiseless(released: Released) -> object:
    if isinstance(released.mechanism, ExponentialMechanism):
        return int(np.argmax(released.statistic))
    return released.statistic


def _of_one(released: Released, output: Any, other: Any) -> float:
    mechanism = released.mechanism
    if isinstance(mechanism, ObjectiveMechanism):
        return _of_minimiser(released, other)
    s, t = np.asarray(released.statistic), np.asarray(other)
    if s.shape != t.shape:
        return CERTAIN
    if isinstance(mechanism, ExponentialMechanism):
        return float(s[int(output)] - t[int(output)]) / mechanism.sensitivity
    o = np.asarray(output)
    if o.shape != s.shape:
        return 0.0
    if isinstance(mechanism, EntryMechanism) and np.any((o == s) & (s != t)):
        return CERTAIN
    variance = float(mechanism.variance())
    if not variance > 0:
        return CERTAIN if np.array_equal(o, s) and not np.array_equal(s, t) else 0.0
    if isinstance(mechanism, LaplaceMechanism | EntryMechanism):
        return float((np.abs(o - t) - np.abs(o - s)).sum()) / math.sqrt(variance / 2)
    # Gaussian; for a law that is not known here, a projection on the difference.
    return float(((o - (s + t) / 2) * (s - t)).sum()) / variance


def _of_minimiser(released: Released, other: Any) -> float:
    """At a minimiser the noise balances all other gradients; its law is known.

    The change of the volume element, at most kappa, is left out.
    """
    mechanism, point = released.mechanism, released.output
    pull = mechanism.strong_convexity * point
    mine, theirs = (
        float(np.linalg.norm(objective.item().gradient(point) + pull))
        for objective in (released.statistic, other)
    )
    if isinstance(mechanism, GammaObjectiveMechanism):
        return float(mechanism.rate * (theirs - mine))
    return (theirs**2 - mine**2) / (2 * float(mechanism.variance()))


def _gradient_gap(here: Released, there: Released) -> float:
    gradients = [each.statistic.item().gradient(here.output) for each in (here, there)]
    return float(np.linalg.norm(gradients[0] - gradients[1]) / here.mechanism.sensitivity)
