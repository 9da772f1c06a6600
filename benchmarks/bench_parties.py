"""Sums over parties, noisy and secure: ``python -m benchmarks.bench_parties PART ...``.

accuracy   MNIST, record epsilon 3: hulls, Gaussians and linear classifiers, central and federated
pixels     ten classes, five parties of 10,000 rows, raw pixels, epsilon 0.5, 1 and 2
scenarios  uneven parties, and one party per class, beside a random deal
masking    what masks cost a party beside its own sum, by number of parties
linear     linear classifiers on HOG by so many gradients, totals by their law (`totals.py`)
deployed   SuperLink and five SuperNodes, some killed: seconds
tries      hulls over ten parties with noisy sums, in other settings, totals by their law
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed

from benchmarks.bench_federated import hull_classifier
from benchmarks.recording import mnist, timed, write
from benchmarks.totals import TotalsByLaw, times_the_variance
from sfumato import (
    Bounds,
    HOGFeatures,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
)
from sfumato.audit.testing import seeded_noise
from sfumato.federated import Federation, make_parties
from sfumato.federated.secure import Agreement, Identity, Journal, Member, SumCoordinator
from sfumato.mechanisms import GaussianMechanism
from sfumato.mechanisms.gaussian import GaussianShareMechanism
from sfumato.models import gaussians
from sfumato.papers.data import unit_rows
from sfumato.sums import ArrayRecords, SecondMoment

DELTA = 1e-5
UNIT = Bounds(norm=1.0, labels=range(10))
WAYS: tuple[tuple[str, int], ...] = (("central", 1), ("noisy", 10), ("secure", 10), ("secure", 100))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--n-layers", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="models of the part accuracy")
    parser.add_argument("--steps", type=int, nargs="*", default=[240], help="gradients")
    parser.add_argument("--name", help="of the file of results")
    parser.add_argument("--ways", type=int, default=len(WAYS), help="so many of the four ways")
    options = parser.parse_args()
    for part in options.parts or [each for each in PARTS if each != "deployed"]:
        unsaid = ("parts", "only", "ways", "name")
        settings = {k: v for k, v in vars(options).items() if k not in unsaid}
        write(options.name or f"parties_{part}", PARTS[part](options), seed=0, **settings)


def accuracy(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The table: the same estimator over one table, and over parties."""
    X, y, X_test, y_test = mnist()
    X, y = X[: options.rows], y[: options.rows]
    pixels = unit_rows(X), y, unit_rows(X_test), y_test
    numbers = []
    for name in options.only or ("gaussian", "hulls", "linear"):
        data = pixels
        if name == "linear":
            hog = HOGFeatures()
            data = hog.fit_transform(X), y, hog.transform(X_test), y_test
        for trust, n_parties in WAYS[: options.ways]:
            found = [
                fitted(name, data, trust, n_parties, run, options) for run in range(options.runs)
            ]
            numbers.append(averaged({"model": name, "trust": trust, "parties": n_parties}, found))
    return numbers


def pixels(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Raw pixels, five parties: the earlier table had .683, .782 and .840."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X[:50_000]), y[:50_000], unit_rows(X_test), y_test
    numbers = []
    for epsilon in (0.5, 1.0, 2.0):
        for trust, n_parties in (("central", 1), ("noisy", 5), ("secure", 5)):
            found = [
                fitted(
                    "gaussian", data, trust, n_parties, run, options, epsilon=epsilon, delta=1e-4
                )
                for run in range(options.runs)
            ]
            about = {"epsilon": epsilon, "trust": trust, "parties": n_parties}
            numbers.append(averaged(about, found))
    return numbers


def scenarios(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How rows lie at parties should not matter to a sum."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X[: options.rows]), y[: options.rows], unit_rows(X_test), y_test
    numbers = []
    for scenario in ("random", "uneven", "one-class-each"):
        for trust in ("noisy", "secure"):
            found = [
                fitted("gaussian", data, trust, 10, run, options, scenario=scenario)
                for run in range(options.runs)
            ]
            about = {"scenario": scenario, "trust": trust, "parties": 10}
            numbers.append(averaged(about, found))
    return numbers


def linear(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Linear classifiers on HOG features by so many gradients."""
    X, y, X_test, y_test = mnist()
    hog = HOGFeatures()
    data = hog.fit_transform(X[: options.rows]), y[: options.rows], hog.transform(X_test), y_test
    asked = [(n_steps, *way) for n_steps in options.steps for way in WAYS[: options.ways]]
    found = Parallel(n_jobs=options.n_jobs)(
        delayed(by_law)(data, "linear", way[1], way[2], run, n_steps=way[0])
        for way in asked
        for run in range(options.runs)
    )
    return [
        averaged(
            {"n_steps": way[0], "trust": way[1], "parties": way[2]},
            found[place * options.runs : (place + 1) * options.runs],
        )
        for place, way in enumerate(asked)
    ]


TRIES: tuple[dict[str, Any], ...] = (
    {},
    {"n_components": 20},
    {"n_components": 30},
    {"n_components": 60},
    {"gaussians_per_class": 1},
    {"gaussians_per_class": 1, "n_components": 30},
    {"hull_components": 10},
    {"hull_components": 40},
    {"samples_per_gaussian": 2000},
    {"pca_share": 0.1},
    {"pca_share": 0.4},
)


def tries(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Hulls over ten parties with noisy sums: what else could be set."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X[: options.rows]), y[: options.rows], unit_rows(X_test), y_test
    found = Parallel(n_jobs=options.n_jobs)(
        delayed(by_law)(data, "hulls", "noisy", 10, run, **settings)
        for settings in TRIES
        for run in range(options.runs)
    )
    return [
        averaged({"settings": settings}, found[place * options.runs : (place + 1) * options.runs])
        for place, settings in enumerate(TRIES)
    ]


def by_law(
    data: Any, name: str, trust: str, n_parties: int, run: int, **settings: Any
) -> dict[str, Any]:
    """Fit to totals that have the law of those over parties."""
    X, y, X_test, y_test = data
    options = argparse.Namespace(n_layers=5, n_jobs=1)
    share = settings.pop("pca_share", gaussians.PCA_SHARE)
    model = estimator(name, options).set_params(**settings)
    records = TotalsByLaw.of(X, y, times_the_variance(trust, n_parties))
    with seeded_noise(run), patch.object(gaussians, "PCA_SHARE", share):
        _, time = timed(lambda: model.fit(records))
    score = round(float(np.mean(model.predict(X_test) == y_test)), 4)
    return {"accuracy": score, "fit": time}


def averaged(about: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    scores = [each["accuracy"] for each in found]
    numbers = {
        **about,
        "accuracy": round(float(np.mean(scores)), 4),
        "least": min(scores),
        "most": max(scores),
        **{name: found[0][name] for name in found[0] if name != "accuracy"},
    }
    print(numbers, flush=True)
    return numbers


def fitted(
    name: str,
    data: Any,
    trust: str,
    n_parties: int,
    run: int,
    options: argparse.Namespace,
    *,
    scenario: str = "random",
    **promise: Any,
) -> dict[str, Any]:
    X, y, X_test, y_test = data
    model = estimator(name, options, **promise)
    with tempfile.TemporaryDirectory() as folder, seeded_noise(run):
        if trust == "central":
            _, time = timed(lambda: model.fit(X, y))
        else:
            parties = make_parties(
                X, y, folder, scenario=scenario, n_parties=n_parties, random_state=run
            )
            federation = Federation(parties, bounds=UNIT, trust=trust)
            _, time = timed(lambda: model.fit(federation))
    score = round(float(np.mean(model.predict(X_test) == y_test)), 4)
    return {"accuracy": score, "fit": time}


def estimator(name: str, options: argparse.Namespace, **promise: Any) -> Any:
    given = {"epsilon": 3.0, "delta": DELTA, "bounds": UNIT, **promise}
    if name == "gaussian":
        return PrivateGaussianClassifier(n_components=40, **given)
    if name == "linear":
        steps = getattr(options, "steps", [240])[0]
        return PrivateLinearClassifier(n_steps=steps, **given)
    given.pop("delta")
    return hull_classifier(options, **given)


def masking(options: argparse.Namespace) -> list[dict[str, Any]]:  # noqa: ARG001
    """Seconds of one party: its own sum, its noise, and its masks, at about 10^6 numbers."""
    width = 1413  # whose upper triangle has 998,991 numbers
    size = width * (width + 1) // 2
    rows = np.random.RandomState(0).uniform(-0.03, 0.03, size=(2000, width))
    records = ArrayRecords(rows, relation="replace_one")
    whole = GaussianMechanism(2.0, 1.0)
    share = GaussianShareMechanism(whole, 40)
    _, own = timed(lambda: records._sum(SecondMoment(width)))
    cells, noise = timed(lambda: share.release_symmetric(np.zeros((width, width)), ledger=None))
    numbers = []
    for n_parties in (10, 25, 50):
        shares, masks = masked(n_parties, cells)
        found = {
            "parties": n_parties,
            "numbers": size,
            "sum_s": own["cpu_s"],
            "noise_s": noise["cpu_s"],
            "shares_s": shares,
            "masks_s": masks,
            "masking_by_sum": round((shares + masks) / own["cpu_s"], 3),
        }
        print(found, flush=True)
        numbers.append(found)
    return numbers


def masked(n_parties: int, cells: np.ndarray) -> tuple[float, float]:
    """CPU seconds of one party's shares, and of its masks."""
    identities = {f"party-{i:03}": Identity() for i in range(n_parties)}
    keys = {name: each.public for name, each in identities.items()}
    agreement = Agreement("t", 0, keys, len(cells), 2**50)
    with tempfile.TemporaryDirectory() as folder:
        members = {
            name: Member(name, identities[name], agreement, keys, Journal(f"{folder}/{name}"))
            for name in keys
        }
        session = SumCoordinator(agreement)
        session.adverts = {name: member.advertise() for name, member in members.items()}
        first = next(iter(members.values()))
        _, shares = timed(lambda: first.share(session.adverts))
        session.boxes = {name: member.share(session.adverts) for name, member in members.items()}
        _, masks = timed(lambda: first.mask(session.boxes_for(first.name), cells))
    return shares["cpu_s"], masks["cpu_s"]


PARTS = {
    "accuracy": accuracy,
    "pixels": pixels,
    "scenarios": scenarios,
    "masking": masking,
    "linear": linear,
    "tries": tries,
}

if __name__ == "__main__":
    main()
