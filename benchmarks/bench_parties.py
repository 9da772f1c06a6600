"""Sums over parties, noisy and secure: ``python -m benchmarks.bench_parties PART ...``.

accuracy   MNIST, record epsilon 3: hulls, Gaussians and linear classifiers, central and federated
pixels     ten classes, five parties of 10,000 rows, raw pixels, epsilon 0.5, 1 and 2
scenarios  uneven parties, and one party per class, beside a random deal
masking    what masks cost a party beside its own sum, by number of parties
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import numpy as np

from benchmarks.bench_federated import hull_classifier
from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, HOGFeatures, PrivateGaussianClassifier, PrivateLinearClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.federated import Federation, make_parties
from sfumato.federated.secure import Agreement, Identity, Journal, Member, SumCoordinator
from sfumato.mechanisms import GaussianMechanism
from sfumato.mechanisms.gaussian import GaussianShareMechanism
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
    options = parser.parse_args()
    for part in options.parts or PARTS:
        settings = {k: v for k, v in vars(options).items() if k != "parts"}
        write(f"parties_{part}", PARTS[part](options), seed=0, **settings)


def accuracy(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The table: the same estimator over one table, and over parties."""
    X, y, X_test, y_test = mnist()
    X, y = X[: options.rows], y[: options.rows]
    pixels = unit_rows(X), y, unit_rows(X_test), y_test
    numbers = []
    for name in ("gaussian", "hulls", "linear"):
        data = pixels
        if name == "linear":
            hog = HOGFeatures()
            data = hog.fit_transform(X), y, hog.transform(X_test), y_test
        for trust, n_parties in WAYS:
            about = {"model": name, "trust": trust, "parties": n_parties}
            numbers.append(averaged(about, data, options))
    return numbers


def pixels(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Raw pixels, five parties: the earlier table had .683, .782 and .840."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X[:50_000]), y[:50_000], unit_rows(X_test), y_test
    numbers = []
    for epsilon in (0.5, 1.0, 2.0):
        for trust, n_parties in (("central", 1), ("noisy", 5), ("secure", 5)):
            about = {"epsilon": epsilon, "trust": trust, "parties": n_parties}
            numbers.append(averaged(about, data, options, delta=1e-4))
    return numbers


def scenarios(options: argparse.Namespace) -> list[dict[str, Any]]:
    """How rows lie at parties should not matter to a sum."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X[: options.rows]), y[: options.rows], unit_rows(X_test), y_test
    numbers = []
    for scenario in ("random", "uneven", "one-class-each"):
        for trust in ("noisy", "secure"):
            about = {"scenario": scenario, "trust": trust, "parties": 10}
            numbers.append(averaged(about, data, options))
    return numbers


def averaged(
    about: dict[str, Any], data: Any, options: argparse.Namespace, **promise: Any
) -> dict[str, Any]:
    """Fit as often as is asked for, with what is said `about` the row of the table."""
    found = [fitted({**about, **promise}, data, run, options) for run in range(options.runs)]
    scores = [score for score, _ in found]
    mean = round(float(np.mean(scores)), 4)
    numbers = {**about, "accuracy": mean, "least": min(scores), "most": max(scores)}
    numbers["fit"] = found[0][1]
    print(numbers, flush=True)
    return numbers


def fitted(
    settings: dict[str, Any], data: Any, run: int, options: argparse.Namespace
) -> tuple[float, Any]:
    X, y, X_test, y_test = data
    trust, n_parties = settings.pop("trust"), settings.pop("parties")
    scenario = settings.pop("scenario", "random")
    model = estimator(settings.pop("model", "gaussian"), options, **settings)
    with tempfile.TemporaryDirectory() as folder, seeded_noise(run):
        if trust == "central":
            _, time = timed(lambda: model.fit(X, y))
        else:
            parties = make_parties(
                X, y, folder, scenario=scenario, n_parties=n_parties, random_state=run
            )
            federation = Federation(parties, bounds=UNIT, trust=trust)
            _, time = timed(lambda: model.fit(federation))
    return round(float(np.mean(model.predict(X_test) == y_test)), 4), time


def estimator(name: str, options: argparse.Namespace, **promise: Any) -> Any:
    given = {"epsilon": 3.0, "delta": DELTA, "bounds": UNIT, **promise}
    if name == "gaussian":
        return PrivateGaussianClassifier(n_components=40, **given)
    if name == "linear":
        return PrivateLinearClassifier(n_steps=240, **given)
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


PARTS = {"accuracy": accuracy, "pixels": pixels, "scenarios": scenarios, "masking": masking}

if __name__ == "__main__":
    main()
