"""Known numbers of the linear classifiers on 10,000 rows of MNIST; skipped without the data."""

import gzip
import warnings

import numpy as np
import pytest

from sfumato import Bounds, LinearClassifier
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.papers.feddpdr import PrintedDPML
from sfumato.papers.feddpdr.objective import LinearObjective
from sfumato.privacy.guarantee import Status
from sfumato.sums.losses import loss_named

N = 10_000
TASKS = {"even or odd": lambda y: y % 2, "0-4 or 5-9": lambda y: y // 5, "ten": lambda y: y}


@pytest.fixture(scope="module")
def mnist(data_folder):
    folder = data_folder / "mnist"
    if not folder.is_dir():
        pytest.skip("MNIST is not among the data sets")

    def read(name, offset):
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8, offset=offset)

    parts = []
    for part in ("train", "t10k"):
        pixels = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:N] / 255
        parts += [pixels, read(f"{part}-labels-idx1-ubyte.gz", 8)[:N].astype(int)]
    return parts


@pytest.fixture(scope="module")
def unit(mnist):
    X, y, X_test, y_test = mnist
    return unit_rows(X), y, unit_rows(X_test), y_test


def unit_rows(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def basis(unit):
    return np.linalg.eigh(unit[0].T @ unit[0])[1][:, -20:]


@pytest.mark.parametrize(
    ("task", "expected", "room"),
    [("even or odd", 0.82, 0.01), ("0-4 or 5-9", 0.78, 0.015), ("ten", 0.71, 0.02)],
)
def test_without_privacy(unit, basis, task, expected, room):
    X, y, X_test, y_test = unit
    model = LinearClassifier(loss="huber", regularization=0.01 * N, fit_intercept=False)
    model.fit(X @ basis, TASKS[task](y))
    assert model.score(X_test @ basis, TASKS[task](y_test)) == pytest.approx(expected, abs=room)


def test_the_minimiser_is_found_to_its_last_digits(unit, basis):
    X, y, *_ = unit
    loss = loss_named("huber", 2)
    rows = X @ basis
    objective = LinearObjective(loss, rows, loss.targets(y % 2, rows))
    found = objective.minimise(np.zeros(objective.shape), 0.01 * N, 1e-9 * N)
    gradient = objective.gradient(found) + 0.01 * N * found
    assert np.linalg.norm(gradient) / N < 1e-9


def scores(data, epsilon, components, bounds, seeds=3):
    X, y, X_test, y_test = data
    found = []
    for _ in range(seeds):
        model = PrintedDPML(components, epsilon=epsilon, delta=1e-4, bounds=bounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RefutedGuaranteeWarning)
            found.append(model.fit(X, y % 2).score(X_test, y_test % 2))
    return np.mean(found), model.guarantee_


def test_as_printed_with_rows_in_the_unit_ball(unit):
    ball = Bounds(norm=1.0, labels=[0, 1])
    accuracy, promised = scores(unit, 1.0, 20, ball)
    assert accuracy == pytest.approx(0.775, abs=0.03)
    assert promised.status is Status.CONDITIONAL
    assert scores(unit, 0.1, 20, ball)[0] < 0.75
    assert scores(unit, 0.1, None, ball, seeds=1)[0] < 0.75


def test_as_printed_with_raw_pixels_looks_better_and_promises_nothing(mnist):
    pixels = Bounds(lower=0.0, upper=1.0, labels=[0, 1])
    accuracy, promised = scores(mnist, 0.1, 20, pixels)
    assert accuracy == pytest.approx(0.826, abs=0.02)
    assert promised.status is Status.REFUTED
