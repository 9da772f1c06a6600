"""Every public estimator: scikit-learn's checks, and the contracts of private ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

import sfumato
from sfumato import (
    AffineHullClassifier,
    Bounds,
    DeepAffineHull,
    Fabricator,
    KernelAffineHull,
    PrivateAffineHullClassifier,
    PrivateGaussianClassifier,
    PrivateMoments,
    PrivatePCA,
    WideAffineHull,
)
from sfumato.private import PrivateEstimator
from sfumato.testing import PRIVATE_CHECKS, PrivateCase

WIDE = Bounds(norm=1e3, labels="public")

# One instance a public estimator, with settings under which scikit-learn's small data make sense.
INSTANCES: dict[str, Any] = {
    "PrivatePCA": PrivatePCA(n_components=2, epsilon=np.inf, bounds=WIDE),
    "PrivateMoments": PrivateMoments(epsilon=np.inf, bounds=WIDE),
    "PrivateGaussianClassifier": PrivateGaussianClassifier(epsilon=np.inf, bounds=WIDE),
    "Fabricator": Fabricator(epsilon=np.inf, bounds=WIDE, random_state=0),
    "PrivateAffineHullClassifier": PrivateAffineHullClassifier(
        n_layers=1, samples_per_gaussian=100, epsilon=np.inf, bounds=WIDE, random_state=0
    ),
    "KernelAffineHull": KernelAffineHull(),
    "DeepAffineHull": DeepAffineHull(),
    "WideAffineHull": WideAffineHull(branch_size=20),
    "AffineHullClassifier": AffineHullClassifier(branch_size=20),
}
VARIANTS = [
    KernelAffineHull(dtype="float32"),
    WideAffineHull(branch_size=20, partition="random"),
    AffineHullClassifier(search="pruned", dtype="float32"),
]

# Checks of scikit-learn that a private estimator fails on purpose, with the reason.
NOT_RAISED = (
    "an infinite target is mapped to a public default: raising would tell that such a row exists"
)
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "PrivateMoments": {"check_supervised_y_no_nan": NOT_RAISED},
    "PrivateGaussianClassifier": {"check_supervised_y_no_nan": NOT_RAISED},
    "PrivateAffineHullClassifier": {"check_supervised_y_no_nan": NOT_RAISED},
}


def public_estimators() -> dict[str, type]:
    found = {name: getattr(sfumato, name) for name in sfumato.__all__}
    return {
        name: value
        for name, value in found.items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }


def test_every_public_estimator_is_checked() -> None:
    assert set(INSTANCES) == set(public_estimators())
    assert {
        name for name, kind in public_estimators().items() if issubclass(kind, PrivateEstimator)
    } == set(CASES)


@parametrize_with_checks(
    [*INSTANCES.values(), *VARIANTS],
    expected_failed_checks=lambda e: EXPECTED_FAILURES.get(type(e).__name__, {}),
)
@pytest.mark.filterwarnings("ignore:delta=")
def test_scikit_learn_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# Private estimators ------------------------------------------------------------------------------


def digits_case() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:300] / 16.0, y[:300]


def blobs_case() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(200, n_features=3, centers=3, random_state=0)
    return X * 0.05, y


def pca_oracle(model: Any, X: np.ndarray, _: Any) -> None:
    right = np.linalg.svd(X, full_matrices=False)[2][: model.n_components_]
    np.testing.assert_allclose(np.abs(np.sum(right * model.components_, axis=1)), 1, atol=1e-4)


def moments_oracle(model: Any, X: np.ndarray, y: Any) -> None:
    means = [X[y == c].mean(axis=0) for c in model.classes_]
    np.testing.assert_allclose(model.means_, means, atol=1e-4)


def classifier_oracle(model: Any, X: np.ndarray, y: Any) -> None:
    assert model.score(X, y) > 0.95


HULLS = {"n_components": 5, "epsilon": 2.0, "delta": 1e-5, "pca_components": 8, "random_state": 0}
CASES: dict[str, list[PrivateCase]] = {
    "Fabricator": [
        PrivateCase(Fabricator(bounds=Bounds(norm=8.0, labels=[0, 1, 2]), **HULLS), *digits_case()),
        PrivateCase(
            Fabricator(
                relation="add_or_remove_one",
                bounds=Bounds(norm=2.0, labels=[0, 1, 2]),
                **HULLS | {"pca_components": 2},
            ),
            *blobs_case(),
        ),
    ],
    "PrivateAffineHullClassifier": [
        PrivateCase(
            PrivateAffineHullClassifier(
                n_layers=2,
                samples_per_gaussian=60,
                bounds=Bounds(norm=8.0, labels=[0, 1, 2]),
                **HULLS,
            ),
            *digits_case(),
            oracle=classifier_oracle,
        ),
        PrivateCase(
            PrivateAffineHullClassifier(
                n_layers=1,
                gaussians_per_class=2,
                samples_per_gaussian=60,
                bounds=Bounds(norm=8.0, labels=[0, 1, 2]),
                **HULLS,
            ),
            *digits_case(),
        ),
    ],
    "PrivatePCA": [
        PrivateCase(PrivatePCA(3, bounds=Bounds(norm=8.0)), digits_case()[0], oracle=pca_oracle),
        PrivateCase(
            PrivatePCA(2, relation="add_or_remove_one", bounds=Bounds(norm=2.0)), blobs_case()[0]
        ),
    ],
    "PrivateMoments": [
        PrivateCase(
            PrivateMoments(bounds=Bounds(norm=2.0, labels=[0, 1, 2])),
            *blobs_case(),
            oracle=moments_oracle,
        ),
        PrivateCase(PrivateMoments(bounds=Bounds(norm=2.0)), blobs_case()[0]),
    ],
    "PrivateGaussianClassifier": [
        PrivateCase(
            PrivateGaussianClassifier(
                5, epsilon=2.0, delta=1e-5, bounds=Bounds(norm=8.0, labels=[0, 1, 2])
            ),
            *digits_case(),
            oracle=classifier_oracle,
        ),
        PrivateCase(
            PrivateGaussianClassifier(
                None, relation="add_or_remove_one", bounds=Bounds(norm=2.0, labels=[0, 1, 2])
            ),
            *blobs_case(),
        ),
    ],
}


@pytest.mark.parametrize("check", PRIVATE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=f"{name}-{i}")
        for name, cases in CASES.items()
        for i, c in enumerate(cases)
    ],
)
def test_private_contract(case: PrivateCase, check: Callable[[PrivateCase], None]) -> None:
    check(case)
