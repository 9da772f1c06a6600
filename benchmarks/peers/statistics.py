"""Principal components, means and densities beside diffprivlib and OpenDP; a row is replaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_digits

from benchmarks.peers.asking import ask
from benchmarks.peers.rows import LOWER, ours, row, theirs
from benchmarks.peers.tables import EDGES, adult
from benchmarks.recording import mnist
from sfumato import Bounds, PrivateDensity, PrivateMoments, PrivatePCA

DELTA = 1e-5
PEERS = ("diffprivlib", "opendp")
PATIENCE = 60.0  # seconds for one answer
NAMES = {"diffprivlib": "diffprivlib", "opendp": "OpenDP"}


def promise(epsilon: float, their_delta: float) -> dict[str, Any]:
    relation = "replace_one"
    return {
        "epsilon": epsilon,
        "delta": DELTA,
        "their_delta": their_delta,
        "relation": relation,
    }


# Principal components ----------------------------------------------------------------------------


def components() -> Iterator[dict[str, Any]]:
    """Yield the share that is lost of what the best components would capture.

    Rows are moved by the centre of their public box and divided by its radius, so that all see
    rows of the unit ball, and nobody pays for a mean.
    """
    for name, X, k, epsilons in spread_rows():
        moment = X.T @ X
        best = np.linalg.eigvalsh(moment)[-k:].sum()

        def lost(basis: Any, moment: Any = moment, best: float = best) -> float:
            V = np.atleast_2d(np.asarray(basis))
            return float(1 - np.trace(V @ moment @ V.T) / best)

        for epsilon in epsilons:
            model = PrivatePCA(k, epsilon=epsilon, delta=DELTA, bounds=Bounds(norm=1.0))
            runs = 5 if len(X) < 50_000 else 1
            our = ours("PrivatePCA", runs, lambda m=model, X=X: m.fit(X).components_, lost)
            for package in PEERS:
                answer = ask(
                    *(package, "pca"),
                    epsilon=epsilon,
                    runs=runs,
                    limit=PATIENCE,
                    X=X,
                    n_components=k,
                )
                if answer is not None:
                    peer = theirs(f"{NAMES[package]} PCA", answer, lost)
                    of = f"{name}, {k} of {X.shape[1]}"
                    yield row(
                        *("principal components", of, "lost share of the spread", LOWER, our, peer),
                        **promise(epsilon, 0.0),
                    )


def spread_rows() -> Iterator[tuple[str, np.ndarray, int, tuple[float, ...]]]:
    """Yield rows in the unit ball about the public centre, from few columns to many."""
    images = load_digits().data / 16
    yield "Adult, numbers", _about_centre(numbers_of_adult()), 2, (0.1, 1.0)
    small = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    yield "digits of 4 x 4", _about_centre(small), 4, (1.0,)
    yield "digits", _about_centre(images), 10, (1.0,)
    yield "MNIST", _about_centre(mnist()[0].astype(float)), 50, (1.0,)


def _about_centre(X: np.ndarray) -> np.ndarray:
    return (X - 0.5) / (0.5 * math.sqrt(X.shape[1]))


def numbers_of_adult(part: str = "data") -> np.ndarray:
    """Return the five numbers by their public ranges, in the unit cube."""
    table = adult(part)
    columns = [
        (table[name] - edges[0] - 1) / (edges[-1] - edges[0] - 1)
        for name, (_, edges) in EDGES.items()
    ]
    return np.asarray(np.clip(np.column_stack(columns), 0.0, 1.0))


# Means -------------------------------------------------------------------------------------------


def means() -> Iterator[dict[str, Any]]:
    """Yield the distance of a released mean from the mean; ours releases all second moments too."""
    sets = {
        "digits, 64 columns": load_digits().data / 16,
        "Adult, 5 numbers": numbers_of_adult(),
    }
    for name, X in sets.items():
        truth = X.mean(axis=0)

        def distance(found: Any, truth: np.ndarray = truth) -> float:
            return float(np.linalg.norm(np.asarray(found) - truth))

        for epsilon in (0.1, 1.0):
            bounds = Bounds(lower=0.0, upper=1.0)
            model = PrivateMoments(epsilon=epsilon, delta=DELTA, bounds=bounds)
            our = ours("PrivateMoments", 20, lambda m=model, X=X: m.fit(X).means_[0], distance)
            for package in PEERS:
                their_delta = DELTA if package == "opendp" else 0.0
                answer = ask(
                    *(package, "mean"),
                    epsilon=epsilon,
                    delta=their_delta,
                    runs=20,
                    X=X,
                    lower=0.0,
                    upper=1.0,
                )
                if answer is not None:
                    peer = theirs(f"{NAMES[package]} mean", answer, distance)
                    yield row(
                        *("mean", name, "distance from the mean", LOWER, our, peer),
                        **promise(epsilon, their_delta),
                    )


# Densities ---------------------------------------------------------------------------------------


PER_CELL = 64  # points at which a density is added up


def densities() -> Iterator[dict[str, Any]]:
    """Yield total variations between a released distribution and the true or a held-out one.

    Histograms have 2 n^(1/3) bins, or one a year of age; what is below zero is cut off.
    """
    for name, x, edges, truth in lines():

        def variation(masses: Any, truth: np.ndarray = truth) -> float:
            shares = np.maximum(np.asarray(masses, dtype=float), 0)
            shares = (
                shares / shares.sum() if shares.sum() else np.full(len(shares), 1 / len(shares))
            )
            fine = np.repeat(shares, len(truth) // len(shares)) / (len(truth) // len(shares))
            return float(np.abs(fine - truth).sum() / 2)

        for epsilon in (0.1, 1.0):
            release = _released_density(x, edges, len(truth), epsilon)
            our = ours("PrivateDensity", 5, release, variation)
            for package in PEERS:
                answer = ask(package, "histogram", epsilon=epsilon, runs=5, x=x, edges=edges)
                if answer is not None:
                    peer = theirs(f"{NAMES[package]} histogram", answer, variation)
                    yield row(
                        *("density", name, "total variation", LOWER, our, peer),
                        **promise(epsilon, 0.0),
                    )


def _released_density(x: np.ndarray, edges: Any, cells: int, epsilon: float) -> Callable[[], Any]:
    box = Bounds(lower=float(edges[0]), upper=float(edges[-1]))
    # Ages are whole numbers, of which a density makes peaks: a cell's mass, not its middle.
    width = (edges[-1] - edges[0]) / (cells * PER_CELL)
    middles = edges[0] + width * (np.arange(cells * PER_CELL) + 0.5)

    def release() -> np.ndarray:
        model = PrivateDensity(epsilon=epsilon, delta=DELTA, bounds=box).fit(x[:, None])
        masses = np.asarray(model.density(middles[:, None]) * width)
        return masses.reshape(cells, PER_CELL).sum(axis=1)

    return release


def lines() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield numbers, edges of a histogram, and true masses of equal cells."""
    rng = np.random.default_rng(0)
    parts = (0.6, norm(0.3, 0.08)), (0.4, norm(0.7, 0.05))
    for n in (1000, 30_000):
        chosen = rng.random(n) < parts[0][0]
        x = np.where(chosen, *(law.rvs(n, random_state=rng) for _, law in parts))
        bins = math.ceil(2 * n ** (1 / 3))
        cells = np.linspace(0, 1, 40 * bins + 1)
        truth = np.diff(sum(weight * law.cdf(cells) for weight, law in parts))
        yield f"two normals, {n:,} rows", np.clip(x, 0, 1), cells[::40], truth / truth.sum()
    ages = [adult(part)["age"].to_numpy(dtype=float) for part in ("data", "test")]
    years = np.arange(17, 92) - 0.5
    held_out = np.histogram(ages[1], years)[0]
    yield "ages of Adult, test rows", ages[0], years, held_out / held_out.sum()
