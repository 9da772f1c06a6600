"""What the same promise costs now and cost before: ``python -m benchmarks.bench_budget_saved``.

Each row has a figure of version 0.1.0, from its formula or its algorithm, and the one of the code
as it stands. Smaller is better in all of them but the last, where 1 is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.recording import timed, write
from sfumato import Bounds, PrivateMeanCurve
from sfumato.accounting import epsilon_spent
from sfumato.events import BoundedRangeEvent, PureEvent, RepeatedEvent
from sfumato.functions.bandwidth import normal_rule, private_spreads, spread_mechanisms
from sfumato.functions.domain import Domain
from sfumato.functions.fourier import FourierFeatures
from sfumato.functions.spaces import GaussianSpace
from sfumato.guarantee import Relation
from sfumato.kernels import GaussianKernel
from sfumato.mechanisms import EntryMechanism, ExponentialMechanism, GaussianMechanism
from sfumato.models.moments import CONSTANT
from sfumato.objectives.losses import HuberLoss
from sfumato.sums.gradients import GradientSum
from sfumato.sums.maps import IntoUnitCube
from sfumato.sums.statistics import ClassMoments, MeanAndSquares

SEED, RUNS, DRAWS = 0, 5, 200
REPLACE = Relation.REPLACE_ONE


def row(item: str, measure: str, before: float, now: float, std: float = 0.0) -> dict[str, Any]:
    """Give one line of the table; `std` is that of the present figure over the runs."""
    found = {"item": item, "measure": measure, "before": before, "now": now, "now_std": std}
    return {name: round(x, 4) if isinstance(x, float) else x for name, x in found.items()}


def choices() -> dict[str, Any]:
    """Fifty choices of the exponential mechanism, as pure epsilon and with their bounded range."""
    spent = [
        epsilon_spent([RepeatedEvent(event, 50)], 1e-6)
        for event in (PureEvent(0.1, "exponential"), BoundedRangeEvent(0.1, "exponential"))
    ]
    return row("50 exponential choices of 0.1 at delta 1e-6", "epsilon", *spent)


def mean_of_rows() -> dict[str, Any]:
    """Error of the record engine's mean where n is public: sums over a noisy n, or over n."""
    rng = np.random.default_rng(SEED)
    n_rows, width = 200, 10
    errors = np.empty((RUNS, 2))
    for run in range(RUNS):
        rows = rng.normal(0.5, 0.05, (n_rows, width)) / math.sqrt(width)
        statistic = MeanAndSquares(width)
        exact = statistic.add_up(rows, np.zeros(n_rows, dtype=np.intp))
        mechanism = GaussianMechanism.calibrate(
            sensitivity=statistic.sensitivity(REPLACE, n_rows), epsilon=0.2, delta=1e-6
        )
        noisy = np.array([mechanism.release(exact, ledger=None) for _ in range(DRAWS)])
        for place, count in enumerate((np.maximum(noisy[:, -1:], 1.0), n_rows)):
            away = noisy[:, :-2] / count - exact[:-2] / n_rows
            errors[run, place] = math.sqrt(np.mean(np.sum(away**2, axis=1)))
    before, now = errors.mean(axis=0)
    measure = "error of a mean, 200 rows, epsilon 0.2"
    return row("record engine, n public", measure, before, now, errors[:, 1].std(ddof=1))


def entries() -> Iterator[dict[str, Any]]:
    """Noise on columns of widths 1 and 100, in their own units, a change of 1 protected."""
    widths, d = np.array([1.0, 100.0]), 1.0
    scale = IntoUnitCube(Bounds(lower=[0.0, 0.0], upper=widths.tolist()), 2)
    units = scale.entry_units(d)
    mechanism = EntryMechanism.calibrate(
        entry_bound=d, epsilon=1.0, rounding=scale.entry_rounding(d)
    )
    noise = mechanism.release(np.zeros((100_000, 2)), ledger=None) / units * widths
    sizes = np.abs(noise).mean(axis=0)
    for width, size in zip(widths, sizes, strict=True):
        before = d / widths.min() * width  # all columns in [0, 1], the narrowest paid for
        yield row(f"entry noise, column of width {width:g}", "mean size at epsilon 1", before, size)


def constants() -> Iterator[dict[str, Any]]:
    """Noise of `PrivateMoments` and of mean curves, in sensitivities over what they are worth."""
    old, new = (ClassMoments(1, 3, w).term_sensitivity(REPLACE) for w in (1.0, CONSTANT))
    yield row("PrivateMoments, weight of the constant", "noise of second moments", old, new)
    yield row("PrivateMoments, weight of the constant", "noise of means", old, new / CONSTANT)
    curve = PrivateMeanCurve(norm=2.0, relation="add_or_remove_one")
    now = math.hypot(2.0, curve._count_weight())
    yield row("mean curve of norm 2, add or remove", "sensitivity", math.hypot(2.0, 2.0), now)


def gradients() -> dict[str, Any]:
    """A clip above the largest slope of the loss."""
    loss = HuberLoss(2)
    clips = 1.9, min(1.9, loss.slope_bound)
    moved = [GradientSum(loss, clip, np.zeros((1, 3))).term_sensitivity(REPLACE) for clip in clips]
    return row("noisy gradients, clip 1.9, Huber's loss", "sensitivity", *moved)


def fourier() -> Iterator[dict[str, Any]]:
    """Replacing one row of a density of Fourier features."""
    for n_features in (1, 2, 3, 5):
        box = Bounds(lower=0.0, upper=1.0)
        kernel = GaussianKernel(0.3)
        found = [
            GaussianSpace(
                kernel,
                FourierFeatures(kernel, 500, n_features=n_features, random_state=SEED + run),
                Domain(box, n_features),
            ).sensitivity(REPLACE, 1)
            for run in range(RUNS)
        ]
        name = f"Fourier density, bandwidth 0.3, {n_features} feature(s)"
        yield row(name, "sensitivity", 2.0, float(np.mean(found)), float(np.std(found, ddof=1)))


def bandwidths() -> Iterator[dict[str, Any]]:
    """A bought bandwidth over the normal rule of the exact quartiles."""
    rng = np.random.default_rng(SEED)
    domain = Domain(Bounds(lower=0.0, upper=1.0), 1)
    for n_rows in (100, 300, 1000):
        ratios = np.empty((RUNS, 2))
        for run in range(RUNS):
            rows = np.clip(rng.normal(0.5, 0.1, (n_rows, 1)), 0, 1)
            exact = np.subtract(*np.quantile(rows[:, 0], [0.75, 0.25]))
            found = [
                [_quartiles(rows, 0.2), *private_spreads(rows, domain, one_choice(), None)]  # type: ignore[arg-type]
                for _ in range(DRAWS)
            ]
            rule = normal_rule(np.array([exact]), n_rows, domain.width)
            for place, spreads in enumerate(np.array(found).T):
                ours = [normal_rule(np.array([s]), n_rows, domain.width)[0] for s in spreads]
                ratios[run, place] = np.median(ours) / rule[0]
        before, now = ratios.mean(axis=0)
        name = f"private bandwidth, {n_rows} rows, epsilon 0.2"
        yield row(name, "median over the exact rule", before, now, ratios[:, 1].std(ddof=1))


def one_choice() -> list[ExponentialMechanism]:
    """The choice of a spread for one feature."""
    return spread_mechanisms(0.2, 1)


def _quartiles(rows: np.ndarray, epsilon: float) -> float:
    """Distance of two private quartiles on an even grid, as version 0.1.0 bought them."""
    edges = np.linspace(0, 1, 257)
    below = np.searchsorted(np.sort(rows[:, 0]), edges, side="left")
    mechanism = ExponentialMechanism.calibrate(sensitivity=1.0, epsilon=epsilon / 2)
    chosen = [
        edges[mechanism.release(-np.abs(below - q * len(rows)), ledger=None)] for q in (0.25, 0.75)
    ]
    return float(abs(chosen[1] - chosen[0]))


def main() -> list[dict[str, Any]]:
    """Give all rows."""
    parts = (entries(), constants(), fourier(), bandwidths())
    return [choices(), mean_of_rows(), gradients(), *(each for part in parts for each in part)]


if __name__ == "__main__":
    found, seconds = timed(main)
    write("budget_saved", {"rows": found, **seconds}, seed=SEED, runs=RUNS)
