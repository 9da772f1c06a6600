"""One call for an audit; and a lower bound on the epsilon of a private estimator.

What a private estimator has learned is computed from released values alone; the taint test shows
it, to the bit. So it is enough to attack the released values, and each run may stop at its last
release. The attack, on fits on the worst two neighbours, is the best one there is: the sum of the
log-ratios of the releases. Where the taint test fails, that is the finding.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import check_random_state, get_tags

from sfumato.audit.attacks import membership_attack
from sfumato.audit.empirical import epsilon_from_outputs
from sfumato.audit.membership import membership_score
from sfumato.audit.report import AuditReport, TwoPoint
from sfumato.audit.testing.contracts import PrivateCase, neighbours
from sfumato.audit.testing.inspection import described
from sfumato.audit.testing.taint import compare_replays, fit, rows_of_a_person
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.mechanisms import EntryMechanism, ExponentialMechanism, LaplaceMechanism
from sfumato.mechanisms.base import Released, Tape, taped
from sfumato.mechanisms.objective import GammaObjectiveMechanism, ObjectiveMechanism
from sfumato.models.base import PrivateEstimator
from sfumato.privacy.events import GaussianEvent, flatten
from sfumato.privacy.guarantee import Unit
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds

Data = tuple[NDArray[Any], NDArray[Any] | None]
WIDTHS = (2, 3, 8, 32, 128)  # numbers of features tried, the least first
DRAWS, FITS = 5_000, 400  # usual runs: where noise alone is drawn again, where each run is a fit
MIN_RUNS = 20  # runs on each side, however long they take
N_ROWS = 24
CERTAIN = 1e3  # stands for an infinite log-ratio


def audit(
    model: Any,
    members: ArrayLike | None = None,
    non_members: ArrayLike | None = None,
    *,
    y_members: ArrayLike | None = None,
    y_non_members: ArrayLike | None = None,
    title: str | None = None,
    observation: str | None = None,
    **two_point_options: Any,
) -> AuditReport:
    """Audit a model.

    Parameters
    ----------
    model : estimator
        A private estimator, fitted or not, gets a lower bound on its epsilon from two neighbours
        that are made from its bounds: no data are needed for it. A fitted model is attacked by its
        distances, losses or margins if members and others are given.
    members, non_members : array-like of shape (n_rows, n_features), optional
        Rows that went into it, and rows of the same kind that did not.
    y_members, y_non_members : array-like, optional
        Their labels.
    title : str, optional
        Of the report.
    observation : str, optional
        What the attacks see, see `membership_attack`.
    **two_point_options
        `n_runs`, `seconds`, `confidence`, `X`, `y`, `n_jobs` of the lower bound; see
        `sfumato.audit.audits.two_point`.

    Returns
    -------
    AuditReport
        Print it, or write it as .html, .md or .json. Parts that were measured on members are
        diagnostics on raw rows and not for release.

    Examples
    --------
    >>> from sfumato import Bounds, PrivatePCA
    >>> from sfumato.audit import audit
    >>> found = audit(PrivatePCA(1, epsilon=1.0, bounds=Bounds(norm=1.0)), n_runs=200)
    >>> found.consistent
    True
    """
    name = type(model).__name__
    parts: dict[str, Any] = {}
    if isinstance(model, PrivateEstimator):
        parts["two_point"] = two_point(model, **two_point_options)
        fitted = getattr(model, "guarantee_", None)
        parts["guarantee"] = parts["two_point"].guarantee if fitted is None else fitted
    if members is not None and non_members is not None:
        labels: dict[str, Any] = {"y_members": y_members, "y_non_members": y_non_members}
        for part, attack in (("score", membership_score), ("attack", membership_attack)):
            parts[part] = attack(model, members, non_members, observation=observation, **labels)
    if not parts:
        raise InvalidInputError(
            f"{name} has no guarantee: give 'members' and 'non_members' to measure an attack."
        )
    return AuditReport(title or f"Audit of {name}", **parts)


def two_point(
    estimator: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    n_runs: int | None = None,
    seconds: float = 20.0,
    confidence: float = 0.99,
    n_jobs: int | None = None,
) -> TwoPoint:
    """Certify a lower bound on the epsilon of a private estimator; see `audit`."""
    model = clone(estimator).set_params(ledger=None)
    if "random_state" in model.get_params(deep=False) and model.random_state is None:
        model.set_params(random_state=0)  # public randomness, which an attacker knows too
    if not np.isfinite(model.epsilon):
        raise InvalidInputError("'epsilon' is infinite: there is no promise to audit.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "delta=")  # the rows are few and mean nothing
        warnings.simplefilter("ignore", RefutedGuaranteeWarning)
        data: Data = pattern(model, 0) if X is None else (np.asarray(X), None)
        if X is not None and y is not None:
            data = data[0], np.asarray(y)
        members, pairs = neighbours(PrivateCase(model, *data))
        promise = fit(clone(model), *members[0]).guarantee_  # on tape it would read "testing"
        with taped() as tape:
            fit(clone(model), *members[0])
        if not tape.releases:
            raise InvalidInputError(
                f"With these settings {type(model).__name__} releases nothing in 'fit': there is "
                "nothing to audit."
            )
        found = [statistics(model, each, len(tape.releases), tape) for each in members]
        i, j = max(pairs, key=lambda pair: separation(found[pair[0]], found[pair[1]]))
        leak = _leak(model, members[i], members[j])
        run, usual = _attack(model, (members[i], members[j]), tape)
        if n_runs is None:  # as many as fit into the time; it does not depend on outputs
            start = time.perf_counter()
            run(0, 0)
            each_run = time.perf_counter() - start
            n_runs = int(min(usual, max(MIN_RUNS, seconds / (2 * each_run))))
        outputs = [
            map_in_parallel(partial(run, side), range(n_runs), n_jobs=n_jobs) for side in (0, 1)
        ]
    claimed = promise.claimed_epsilon if promise.epsilon is None else promise.epsilon
    options: dict[str, Any] = {"delta": promise.delta, "confidence": confidence}
    events = flatten(promise.events)
    if events and all(isinstance(event, GaussianEvent) for event in events):
        # The midpoint of two Gaussians is known beforehand, and so all runs certify.
        options |= {"method": "gaussian", "threshold": 0.0}
    bound = epsilon_from_outputs(*outputs, **options, claimed=claimed)
    return TwoPoint(promise, bound, leak)


def _leak(model: Any, data: Data, near: Data) -> str | None:
    """Return what reads the rows after the releases, if anything does.

    Tried on the neighbours, and on data that differ in every row and in secret labels.
    """
    X, y = data
    middle = X.mean(axis=0)
    y_far = y if y is None or model.protected_unit is Unit.ENTRY else np.roll(y, 1)
    try:
        compare_replays(model, data, (near, (middle + (X[::-1] - middle) / 100, y_far)))
    except AssertionError as sentence:
        return str(sentence)
    return None


def _attack(
    model: Any, data: tuple[Data, Data], tape: Tape
) -> tuple[Callable[[int, int], Any], int]:
    """Return the attack on one run of a side, larger under the first, and the usual runs."""
    n_releases = len(tape.releases)

    def on_releases(side: int, _: int) -> float:
        mine = statistics(model, data[side], n_releases, None)
        theirs = statistics(model, data[1 - side], n_releases, Tape(releases=list(mine)))
        return log_ratio(mine, theirs) * (1 if side == 0 else -1)

    def on_redrawn_noise(side: int, _: int) -> float:
        mine = [
            replace(r, output=getattr(r.mechanism, r.method)(r.statistic, ledger=None))
            for r in exact[side]
        ]
        return log_ratio(mine, exact[1 - side]) * (1 if side == 0 else -1)

    exact = [statistics(model, each, n_releases, tape) for each in data]
    again = [statistics(model, each, n_releases, None) for each in data]
    may_depend = any(  # on what was released before
        a.statistic.dtype.hasobject  # an objective is not a number that noise is added to
        or described(a.statistic) != described(b.statistic)
        or a.mechanism != b.mechanism
        for here, there in zip(exact, again, strict=True)
        for a, b in zip(here, there, strict=True)
    )
    return (on_releases, FITS) if may_depend else (on_redrawn_noise, DRAWS)


class _LastReleaseError(Exception):
    """Nothing after this release can tell more about the rows."""


class _UpTo(list[Released]):
    """A list of releases that ends the run when it is full."""

    most = 0

    def append(self, released: Released) -> None:
        super().append(released)
        if len(self) >= self.most:
            raise _LastReleaseError


def statistics(
    model: Any, data: Data, n_releases: int, playback: Tape | None
) -> Sequence[Released]:
    """Run up to the last release, with outputs drawn or played back."""
    with taped(playback) as tape:
        tape.releases = releases = _UpTo()
        releases.most = n_releases
        with suppress(_LastReleaseError):
            fit(clone(model), *data)
    return tape.releases


# Data made from public bounds alone ------------------------------------------------------------


def pattern(estimator: Any, n_features: int) -> Data:
    """Return rows inside the bounds and, where the estimator asks for them, labels or targets.

    With no number of features, the least with which the estimator can be fitted.
    """
    bounds: Bounds = estimator.array_bounds
    if not n_features:
        listed = bounds.lower if isinstance(bounds.lower, tuple) else None
        refusal: Exception | None = None
        for width in WIDTHS if listed is None else (len(listed),):
            try:
                data = pattern(estimator, width)
                fit(clone(estimator), *data)
            except InvalidInputError as error:
                refusal = error
            else:
                return data
        raise InvalidInputError(
            f"No data for an audit could be made from the bounds; give 'X' and 'y'. {refusal}"
        )
    n_rows = max(3, N_ROWS // rows_of_a_person(estimator)) * rows_of_a_person(estimator)
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


# How much more likely a released value is under one data set than under another -----------------


def log_ratio(here: Sequence[Released], there: Sequence[Released]) -> float:
    """Sum the log-ratios of all releases of a run; exact for the laws of this library."""
    return sum(_of_one(a, a.output, b.statistic) for a, b in zip(here, there, strict=True))


def separation(here: Sequence[Released], there: Sequence[Released]) -> float:
    """Return the log-ratio of a run whose noise is zero: how far apart the two data sets lie."""
    total = 0.0
    for mine, theirs in zip(here, there, strict=True):
        if isinstance(mine.mechanism, ObjectiveMechanism):
            gradients = [each.statistic.item().gradient(mine.output) for each in (mine, theirs)]
            moved = np.linalg.norm(gradients[0] - gradients[1])
            total += float(moved / mine.mechanism.sensitivity)
            continue
        is_choice = isinstance(mine.mechanism, ExponentialMechanism)
        noiseless = int(np.argmax(mine.statistic)) if is_choice else mine.statistic
        total += abs(_of_one(mine, noiseless, theirs.statistic))
    return total


def _of_one(released: Released, output: Any, other: Any) -> float:
    mechanism = released.mechanism
    if isinstance(mechanism, ObjectiveMechanism):
        # At a minimiser the noise balances all other gradients, and its law is known. The change
        # of the volume element, at most kappa, is left out.
        pull = mechanism.strong_convexity * released.output
        mine, theirs = (
            float(np.linalg.norm(objective.item().gradient(released.output) + pull))
            for objective in (released.statistic, other)
        )
        if isinstance(mechanism, GammaObjectiveMechanism):
            return float(mechanism.rate * (theirs - mine))
        return (theirs**2 - mine**2) / (2 * float(mechanism.variance()))
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
