"""A lower bound on epsilon from repeated runs on two neighbouring data sets.

If a mechanism is (epsilon, delta)-private, every event E has
``P(M(D) in E) <= exp(epsilon) P(M(D') in E) + delta``. An event that is chosen on one half of the
runs and counted on the other therefore bounds epsilon from below, with a stated confidence. What
is certified is valid whatever event was chosen; a good choice only makes it large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.gaussian import epsilon_from_mu

METHODS = ("clopper_pearson", "gaussian")
MAX_THRESHOLDS = 200
MAX_BINS = 40
CLEARLY = 0.3  # by so much must a set of bins win: it is chosen from very many
Array = NDArray[np.float64]
Counts = tuple[Any, int, Any, int]  # hits and trials under the likely data, and under the others


# Exact limits of a probability from counts (Clopper and Pearson 1934) ---------------------------


def lower_limit(successes: ArrayLike, trials: ArrayLike, risk: float) -> Array:
    """Return p such that a smaller probability is true with chance at most `risk`."""
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, risk), 0.0)


def upper_limit(successes: ArrayLike, trials: ArrayLike, risk: float) -> Array:
    """Return p such that a larger probability is true with chance at most `risk`."""
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.asarray(1 - lower_limit(n - k, n, risk))


def check_confidence(confidence: Any) -> float:
    """Check a confidence: strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"'confidence' must lie in (0, 1). Got {confidence} instead.")
    return float(confidence)


# The bound --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EmpiricalEpsilon:
    """A certified lower bound on epsilon.

    epsilon: With the stated confidence, the true epsilon at `delta` is not below this figure.
    delta, confidence: At this delta, with this confidence.
    method ({"clopper_pearson", "gaussian"}): Whether the bound holds for any mechanism, or for
        Gaussian noise only.
    n_runs: Runs on each of the two data sets.
    largest: The largest epsilon that this many runs could ever certify by `method`.
    mu: The bound on mu, for the method "gaussian".
    claimed: The epsilon that was promised.
    hits, hits_other: How often the event was met, and in how many runs, under either data set.
    """

    epsilon: float
    delta: float
    confidence: float
    method: str
    n_runs: int
    largest: float
    mu: float | None = None
    claimed: float | None = None
    hits: tuple[int, int] = (0, 0)
    hits_other: tuple[int, int] = (0, 0)

    @property
    def refutes(self) -> bool:
        """Whether more was certified than promised; None promised is never refuted."""
        return self.claimed is not None and self.epsilon > self.claimed

    def __str__(self) -> str:
        found = (
            f"With confidence {self.confidence:g}, epsilon is at least {self.epsilon:.3g} at "
            f"delta {self.delta:g} ({self.n_runs} runs per side could certify at most "
            f"{self.largest:.3g})."
        )
        if self.method == "gaussian":
            found += " Both are converted from mu, which is right for Gaussian noise only."
        if self.claimed is None:
            return found
        if self.refutes:
            return f"REFUTED: epsilon {self.claimed:.4g} was promised. {found}"
        return f"Not refuted: epsilon {self.claimed:.4g} was promised. {found} This proves nothing."

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values (infinity as the string "inf")."""
        record = {**vars(self), "refutes": self.refutes, "sentence": str(self)}
        return {k: "inf" if v == math.inf else v for k, v in record.items()}


def empirical_epsilon(
    mechanism: Any,
    D: Any,
    D_prime: Any,
    *,
    n_runs: int = 1000,
    delta: float = 0.0,
    confidence: float = 0.99,
    method: str = "clopper_pearson",
    statistic: Callable[[Any], float] | None = None,
    threshold: float | None = None,
    batched: bool = False,
    claimed: float | None = None,
) -> EmpiricalEpsilon:
    """Run a mechanism on two neighbours and certify a lower bound on its epsilon.

    Parameters
    ----------
    mechanism : callable, or object with `release`
        ``mechanism(D)`` gives one output with noise of its own: a number, an array, or anything
        that `statistic` can read. A mechanism of `sfumato.mechanisms` may stand for its release.
    D, D_prime : object
        Neighbouring data sets, best the pair that moves the output most.
    n_runs : int, default=1000
        Runs on each of the two.
    delta : float, default=0.0
        The delta at which epsilon is bounded.
    confidence : float, default=0.99
        Chance at least, that the bound is true.
    method : {"clopper_pearson", "gaussian"}, default="clopper_pearson"
        "clopper_pearson" holds for any mechanism. "gaussian" bounds mu of Gaussian differential
        privacy and translates it; it is far sharper, and refutes the claim of a Gaussian
        mechanism or a composition of such, no other.
    statistic : callable, optional
        Returns a number for an output, larger under D. By default an array is projected on the
        difference of the means of both sides, learned on the first half of the runs.
    threshold : float, optional
        The event is ``statistic >= threshold``, fixed before any run: all runs then certify.
        By default an event is chosen on the first half of the runs and certified on the second.
    batched : bool, default=False
        Whether ``mechanism(D, n_runs)`` gives all outputs at once, one per row.
    claimed : float, optional
        The epsilon that was promised, to be compared with.

    Returns
    -------
    EmpiricalEpsilon
        The bound. A large one refutes a promise; a small one proves nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.audit import empirical_epsilon
    >>> rng = np.random.default_rng(0)
    >>> def cheap(value, n):  # sold with epsilon 1, noise for epsilon 2
    ...     return value + rng.laplace(scale=1 / 2, size=n)
    >>> found = empirical_epsilon(cheap, 1.0, 0.0, n_runs=4000, batched=True, claimed=1.0)
    >>> found.refutes
    True
    """
    if isinstance(n_runs, bool) or not isinstance(n_runs, int | np.integer) or n_runs < 4:
        raise InvalidInputError(f"'n_runs' must be an integer of at least 4. Got {n_runs!r}.")
    run = getattr(mechanism, "release", None)
    call: Any = mechanism if run is None else partial(run, ledger=None)

    def outputs(data: Any) -> Any:
        return call(data, n_runs) if batched else [call(data) for _ in range(n_runs)]

    found = [outputs(D), outputs(D_prime)]
    if statistic is not None:
        found = [[statistic(output) for output in side] for side in found]
    return epsilon_from_outputs(
        *found,
        delta=delta,
        confidence=confidence,
        method=method,
        threshold=threshold,
        claimed=claimed,
    )


def epsilon_from_outputs(
    outputs: ArrayLike,
    outputs_prime: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    method: str = "clopper_pearson",
    threshold: float | None = None,
    claimed: float | None = None,
) -> EmpiricalEpsilon:
    """Certify a lower bound on epsilon from outputs that are there, one per row."""
    risk = 1 - check_confidence(confidence)
    _check_method(method, delta)
    sides = []
    for each in (outputs, outputs_prime):
        rows = np.asarray(each, dtype=np.float64)
        if rows.ndim == 0 or len(rows) < 4 or rows.size == 0:
            raise InvalidInputError("At least 4 runs per side are needed, with numbers as outputs.")
        if np.isnan(rows).any():
            raise InvalidInputError("Outputs must be numbers; some are missing (NaN).")
        sides.append(rows.reshape(len(rows), -1))
    width = sides[0].shape[1]
    if width != sides[1].shape[1]:
        raise InvalidInputError("The outputs on both data sets must have the same size.")
    if threshold is not None and width != 1:
        raise InvalidInputError(
            "'threshold' needs one number per output: give a 'statistic' that makes one."
        )
    n_runs = min(map(len, sides))
    event = None if threshold is None else Event(threshold)
    if event is None:
        chosen = [side[: len(side) // 2] for side in sides]
        sides = [side[len(side) // 2 :] for side in sides]
        weights = np.ones(1)
        if width > 1:  # difference of means over the common variance, learned on choosing runs
            # A coordinate without any spread in which the two differ settles the matter alone.
            gap = chosen[0].mean(axis=0) - chosen[1].mean(axis=0)
            spread = (chosen[0].var(axis=0) + chosen[1].var(axis=0)) / 2
            size = np.max([np.abs(side).max(axis=0) for side in chosen], axis=0)
            weights = gap / np.maximum(spread, 1e-24 * np.maximum(size, 1e-100) ** 2)
        sides = [side @ weights for side in sides]
        # Judged more severely than it will be certified: among many events, the best one so far
        # is partly luck, and most so where little was seen.
        here, there = (side @ weights for side in chosen)
        event = choose_event(here, there, lambda c: bound(c, method, risk**2, delta))
    counts = event.count(*(np.ravel(side) for side in sides))
    found = float(bound(counts, method, risk, delta))
    return EmpiricalEpsilon(
        # A lower bound on mu is converted and rounded down; the accountant's conversion rounds up.
        epsilon=found if method == METHODS[0] else epsilon_from_mu(found, delta) * (1 - 1e-8),
        delta=delta,
        confidence=confidence,
        method=method,
        n_runs=n_runs,
        largest=max_certifiable(
            min(counts[1], counts[3]), delta=delta, confidence=1 - risk, method=method
        ),
        mu=found if method == "gaussian" else None,
        claimed=claimed,
        hits=(int(counts[0]), counts[1]),
        hits_other=(int(counts[2]), counts[3]),
    )


def max_certifiable(
    n_runs: int, *, delta: float = 0.0, confidence: float = 0.99, method: str = "clopper_pearson"
) -> float:
    """Return the largest epsilon that `n_runs` certifying runs per side could ever show.

    About ``log(n_runs / log(2 / (1 - confidence)))`` for the method "clopper_pearson".

    Examples
    --------
    >>> round(max_certifiable(400, confidence=0.95), 1)
    4.7
    """
    risk = 1 - check_confidence(confidence)
    _check_method(method, delta)
    rare = 1 - (risk / 2) ** (1 / n_runs)
    if method == "gaussian":
        return epsilon_from_mu(max(0.0, float(ndtri(1 - rare) - ndtri(rare))), delta)
    return max(0.0, math.log((1 - rare - delta) / rare))


def _check_method(method: str, delta: float) -> None:
    if method not in METHODS:
        raise InvalidInputError(f"'method' must be one of {METHODS}. Got {method!r} instead.")
    if not 0 <= delta < 1 or (method == "gaussian" and delta == 0):
        raise InvalidInputError(
            f"'delta' must lie in [0, 1), above 0 for the method 'gaussian'. Got {delta} instead."
        )


def bound(counts: Counts, method: str, risk: float, delta: float) -> Array:
    """Return what counts of an event certify, p from below, q from above, each at half the risk.

    ``log((p - delta) / q)`` for every (epsilon, delta)-private mechanism, as
    ``p <= exp(epsilon) q + delta``; ``Phi⁻¹(p) - Phi⁻¹(q)``, a bound on mu, for every mu-GDP one.
    """
    hits, trials, hits_other, trials_other = counts
    p, q = lower_limit(hits, trials, risk / 2), upper_limit(hits_other, trials_other, risk / 2)
    if method == "clopper_pearson":
        return np.asarray(np.log(np.maximum((p - delta) / q, 1.0)))
    tiny = np.finfo(float).tiny  # keeps both ends finite
    return np.asarray(np.maximum(ndtri(np.maximum(p, tiny)) - ndtri(np.maximum(q, tiny)), 0.0))


@dataclass(frozen=True)
class Event:
    """The event ``f(score) >= threshold``, or its complement, and under which data it is likely.

    threshold: Where the event begins.
    complement: Whether the event is ``f(score) < threshold``.
    swapped: Whether D' makes it more likely than D.
    edges, ratios: f looks up the log-ratio of the bin in which a score falls; the identity without
        them.
    """

    threshold: float
    complement: bool = False
    swapped: bool = False
    edges: Array | None = None
    ratios: Array | None = None

    def count(self, scores: Array, scores_prime: Array) -> Counts:
        """Count the event under both, the likely one first."""
        met: list[int] = []
        for each in (scores_prime, scores) if self.swapped else (scores, scores_prime):
            values = each
            if self.edges is not None and self.ratios is not None:
                values = self.ratios[np.searchsorted(self.edges, each, side="right")]
            met += int(((values >= self.threshold) ^ self.complement).sum()), len(each)
        return met[0], met[1], met[2], met[3]


def choose_event(scores: Array, scores_prime: Array, judge: Callable[[Counts], Array]) -> Event:
    """Return the event with the largest bound on these runs: a half-line, or a set of bins."""

    def best_half_line(here: Array, there: Array, *lookup: Array) -> tuple[float, Event]:
        thresholds = np.unique(np.concatenate([here, there]))
        if len(thresholds) > MAX_THRESHOLDS:
            thresholds = thresholds[np.linspace(0, len(thresholds) - 1, MAX_THRESHOLDS).astype(int)]
        above, above_prime = (
            len(s) - np.searchsorted(np.sort(s), thresholds, side="left") for s in (here, there)
        )
        n, n_prime = len(here), len(there)
        ways: dict[tuple[bool, bool], Counts] = {
            (False, False): (above, n, above_prime, n_prime),
            (True, False): (n - above, n, n_prime - above_prime, n_prime),
            (False, True): (above_prime, n_prime, above, n),
            (True, True): (n_prime - above_prime, n_prime, n - above, n),
        }
        best = (-1.0, Event(0.0))
        for way, counts in ways.items():
            values = judge(counts)
            at = int(np.argmax(values))
            if values[at] > best[0]:
                best = float(values[at]), Event(float(thresholds[at]), *way, *lookup)
        return best

    least, half_line = best_half_line(scores, scores_prime)
    # Bins, and the log-ratio of both frequencies in each
    pooled = np.concatenate([scores, scores_prime])
    cuts = np.quantile(pooled, np.linspace(0, 1, MAX_BINS + 1)[1:-1])
    values, counts = np.unique(pooled, return_counts=True)
    atoms = values[counts > max(2, len(pooled) // 200)][:MAX_BINS]
    edges = np.unique(np.concatenate([cuts, atoms, np.nextafter(atoms, np.inf)]))
    bins = [np.searchsorted(edges, s, side="right") for s in (scores, scores_prime)]
    here, there = (np.bincount(b, minlength=len(edges) + 1) + 1.0 for b in bins)
    ratios = np.log(here / len(scores)) - np.log(there / len(scores_prime))
    value, in_bins = best_half_line(ratios[bins[0]], ratios[bins[1]], edges, ratios)
    return in_bins if value > least + CLEARLY else half_line
