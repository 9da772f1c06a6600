"""A lower bound on epsilon from repeated runs on two neighbouring data sets.

If a mechanism is (epsilon, delta)-private, every event E has
``P(M(D) in E) <= exp(epsilon) P(M(D') in E) + delta``. An event that is chosen on one half of the
runs and counted on the other therefore bounds epsilon from below, with a stated confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from sfumato.audit.distinguisher import (
    Bound,
    Counts,
    LikelierEvent,
    choose_event,
    direction,
    epsilon_bound,
    mu_bound,
)
from sfumato.audit.intervals import check_confidence
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.gaussian import epsilon_from_mu

METHODS = ("clopper_pearson", "gaussian")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class EmpiricalEpsilon:
    """A certified lower bound on epsilon.

    epsilon: With the stated confidence, the true epsilon at `delta` is not below this figure.
    delta, confidence: At this delta, with this confidence.
    method ({"clopper_pearson", "gaussian"}): Whether the bound holds for any mechanism, or for
        Gaussian noise only.
    n_runs: Runs on each of the two data sets.
    largest: The largest epsilon that so many runs could ever certify by `method`.
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
    n_jobs: int | None = None,
    verbose: bool = False,
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
    n_jobs : int, optional
        Workers, see joblib.
    verbose : bool, default=False
        Show a progress bar.

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
    _check_runs(n_runs)
    run = getattr(mechanism, "release", None)
    call: Any = mechanism if run is None else partial(run, ledger=None)

    def outputs(data: Any) -> Any:
        if batched:
            return call(data, n_runs)
        if n_jobs is None and not verbose:
            return [call(data) for _ in range(n_runs)]
        title = "auditing" if verbose else None
        return map_in_parallel(lambda _: call(data), range(n_runs), n_jobs=n_jobs, progress=title)

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
    sides = [_as_rows(outputs), _as_rows(outputs_prime)]
    if sides[0].shape[1] != sides[1].shape[1]:
        raise InvalidInputError("The outputs on both data sets must have the same size.")
    bound = _bound(method, risk, delta)
    if threshold is None:
        chosen, counted = _halves(sides[0]), _halves(sides[1])
        scores, certifying = _scored((chosen[0], counted[0]), (chosen[1], counted[1]))
        # Judged more severely than it will be certified: among many events, the best one so far
        # is partly luck, and most so where little was seen.
        event = choose_event(*scores, _bound(method, risk**2, delta))
    else:
        certifying = _only_number(sides)
        event = LikelierEvent(threshold)
    result = _result(event.count(*certifying), bound, method, delta, risk)
    return replace(result, confidence=confidence, n_runs=min(map(len, sides)), claimed=claimed)


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


def _bound(method: str, risk: float, delta: float) -> Bound:
    return epsilon_bound(risk, delta) if method == "clopper_pearson" else mu_bound(risk)


def _result(
    counts: Counts, bound: Bound, method: str, delta: float, risk: float
) -> EmpiricalEpsilon:
    found = float(bound(counts))
    return EmpiricalEpsilon(
        epsilon=found if method == "clopper_pearson" else _at_least(found, delta),
        delta=delta,
        confidence=1 - risk,
        method=method,
        n_runs=counts.trials,
        largest=max_certifiable(
            min(counts.trials, counts.trials_other),
            delta=delta,
            confidence=1 - risk,
            method=method,
        ),
        mu=found if method == "gaussian" else None,
        hits=(int(counts.hits), counts.trials),
        hits_other=(int(counts.hits_other), counts.trials_other),
    )


def _at_least(mu: float, delta: float) -> float:
    """Convert a lower bound on mu, and round down; the accountant's conversion rounds up."""
    return epsilon_from_mu(mu, delta) * (1 - 1e-8)


def _scored(
    choosing: Sequence[Array], certifying: Sequence[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return one number an output; the direction is learned on the choosing runs."""
    if choosing[0].shape[1] == 1:
        first, second = ([side[:, 0] for side in sides] for sides in (choosing, certifying))
    else:
        weights = direction(*choosing)
        first, second = ([side @ weights for side in sides] for sides in (choosing, certifying))
    return (first[0], first[1]), (second[0], second[1])


def _only_number(sides: Sequence[Array]) -> tuple[Array, Array]:
    if sides[0].shape[1] != 1:
        raise InvalidInputError(
            "'threshold' needs one number per output: give a 'statistic' that makes one."
        )
    return sides[0][:, 0], sides[1][:, 0]


def _halves(rows: Array) -> tuple[Array, Array]:
    middle = len(rows) // 2
    return rows[:middle], rows[middle:]


def _as_rows(outputs: ArrayLike) -> Array:
    rows = np.asarray(outputs, dtype=np.float64)
    if rows.ndim == 0 or len(rows) < 4 or rows.size == 0:
        raise InvalidInputError("At least 4 runs per side are needed, with numbers as outputs.")
    if np.isnan(rows).any():
        raise InvalidInputError("Outputs must be numbers; some are missing (NaN).")
    return rows.reshape(len(rows), -1)


def _check_runs(n_runs: Any) -> None:
    if isinstance(n_runs, bool) or not isinstance(n_runs, int | np.integer) or n_runs < 4:
        raise InvalidInputError(f"'n_runs' must be an integer of at least 4. Got {n_runs!r}.")


def _check_method(method: str, delta: float) -> None:
    if method not in METHODS:
        raise InvalidInputError(f"'method' must be one of {METHODS}. Got {method!r} instead.")
    if not 0 <= delta < 1 or (method == "gaussian" and delta == 0):
        raise InvalidInputError(
            f"'delta' must lie in [0, 1), above 0 for the method 'gaussian'. Got {delta} instead."
        )
