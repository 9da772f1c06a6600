"""Every public estimator: scikit-learn's checks, and the contracts of private ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from sklearn.base import (
    BaseEstimator,
    RegressorMixin,
    TransformerMixin,
    is_classifier,
    is_regressor,
)
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.audit.testing import PRIVATE_CHECKS, PrivateCase
from sfumato.core.arrays import namespace_of
from sfumato.models import base, generated_features, image_features, images, transfer
from sfumato.models.base import PrivateEstimator
from sfumato.models.image_features import ImageFeatures
from sfumato.tables import cells, encoder

WIDE = sf.Bounds(norm=1e3, labels="public")
WIDE_BOX = sf.Bounds(lower=-20.0, upper=20.0, labels="public")

# One instance a public estimator, with settings under which scikit-learn's small data make sense.
INSTANCES: dict[str, Any] = {
    "TableEncoder": sf.TableEncoder(WIDE),
    "PrivatePCA": sf.PrivatePCA(n_components=2, epsilon=np.inf, bounds=WIDE),
    "PrivateMoments": sf.PrivateMoments(epsilon=np.inf, bounds=WIDE),
    "PrivateTransferClassifier": sf.PrivateTransferClassifier(epsilon=np.inf, bounds=WIDE),
    "MembershipMapping": sf.MembershipMapping(random_state=0),
    "MembershipAutoencoder": sf.MembershipAutoencoder(n_layers=2, random_state=0),
    "MembershipClassifier": sf.MembershipClassifier(n_layers=2, branch_size=20, random_state=0),
    "PrivateGaussianClassifier": sf.PrivateGaussianClassifier(epsilon=np.inf, bounds=WIDE),
    "GaussianFabricator": sf.GaussianFabricator(epsilon=np.inf, bounds=WIDE, random_state=0),
    "PrivateAffineHullClassifier": sf.PrivateAffineHullClassifier(
        n_layers=1, samples_per_gaussian=100, epsilon=np.inf, bounds=WIDE, random_state=0
    ),
    "PrivateKernelClassifier": sf.PrivateKernelClassifier(
        bandwidth=4.0, n_fourier=256, epsilon=np.inf, bounds=WIDE_BOX
    ),
    "PrivateKernelRegressor": sf.PrivateKernelRegressor(
        target_bounds=(-500.0, 500.0), bandwidth=4.0, n_fourier=256, epsilon=np.inf, bounds=WIDE_BOX
    ),
    "PrivateMeanCurve": sf.PrivateMeanCurve(epsilon=np.inf, bounds=WIDE_BOX),
    "PrivateLargeMarginGaussianClassifier": sf.PrivateLargeMarginGaussianClassifier(
        epsilon=np.inf, bounds=WIDE
    ),
    "LargeMarginGaussianClassifier": sf.LargeMarginGaussianClassifier(tol=1e-2),
    "PrivateLinearClassifier": sf.PrivateLinearClassifier(epsilon=np.inf, bounds=WIDE),
    "PrivateAdditiveClassifier": sf.PrivateAdditiveClassifier(epsilon=np.inf, bounds=WIDE_BOX),
    "PrivateLinearRegressor": sf.PrivateLinearRegressor(
        target_bounds=(-500.0, 500.0), epsilon=np.inf, bounds=WIDE_BOX
    ),
    "PrivateAdditiveRegressor": sf.PrivateAdditiveRegressor(
        target_bounds=(-500.0, 500.0), epsilon=np.inf, bounds=WIDE_BOX
    ),
    "PrivateSearchCV": sf.PrivateSearchCV(
        sf.PrivateGaussianClassifier(bounds=WIDE), {}, epsilon=np.inf, mean_runs=1.01
    ),
    "PrivateImageClassifier": sf.PrivateImageClassifier("hog", epsilon=np.inf, bounds=WIDE_BOX),
    "HOGFeatures": sf.HOGFeatures(),
    "ScatteringFeatures": sf.ScatteringFeatures(n_orientations=4),
    "RandomPatchFeatures": sf.RandomPatchFeatures(n_filters=16, mirror=None, n_projected=None),
    "RandomProcessFeatures": sf.RandomProcessFeatures(mirror=None),
    "KernelAffineHull": sf.KernelAffineHull(),
    "DeepAffineHull": sf.DeepAffineHull(),
    "WideAffineHull": sf.WideAffineHull(branch_size=20),
    "AffineHullClassifier": sf.AffineHullClassifier(branch_size=20),
}
VARIANTS = [
    sf.KernelAffineHull(dtype="float32"),
    sf.WideAffineHull(branch_size=20, partition="random"),
    sf.AffineHullClassifier(dtype="float32"),
    sf.LargeMarginGaussianClassifier(regularizer="frobenius", tol=1e-2),
]

# Checks of scikit-learn that a private estimator fails on purpose, with the reason.
NOT_RAISED = (
    "an infinite target is mapped to a public default: raising would tell that such a row exists"
)
ODD_CELL = (
    "a cell that is not a number counts as missing: raising would tell that such a row exists"
)
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "PrivateTransferClassifier": {
        "check_fit_score_takes_y": "two domains: fit(source, y_source, target, y_target)"
    }
}


def public_estimators() -> dict[str, type]:
    found = {name: getattr(sf, name) for name in sf._MODULE_OF}
    return {
        name: value
        for name, value in found.items()
        if inspect.isclass(value) and issubclass(value, BaseEstimator)
    }


def test_every_public_estimator_is_checked() -> None:
    # scikit-learn's checks know no protected entries, rows of two numbers at most, or tables
    apart = {"EntryHullClassifier", "PrivateDensity", "Fabricator"}
    assert {*INSTANCES, *apart} == set(public_estimators())
    private = {k for k, kind in public_estimators().items() if issubclass(kind, PrivateEstimator)}
    # tests/models/test_image_features.py, tests/synthetic/test_table_law.py
    assert private - {"PrivateImageClassifier", "Fabricator"} == set(CASES)


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the checks that are not met; check_complex_data passes if its labels are refused."""
    found = dict(EXPECTED_FAILURES.get(type(estimator).__name__, {}))
    if isinstance(estimator, PrivateEstimator | sf.PrivateSearchCV) and (
        is_classifier(estimator)
        or is_regressor(estimator)
        or isinstance(estimator, sf.PrivateMoments)
    ):
        found["check_supervised_y_no_nan"] = NOT_RAISED
    if isinstance(
        estimator,
        PrivateEstimator
        | sf.PrivateSearchCV
        | sf.PrivateImageClassifier
        | ImageFeatures
        | sf.TableEncoder,
    ):
        found["check_dtype_object"] = ODD_CELL
        if isinstance(estimator, TransformerMixin | RegressorMixin | sf.PrivateMeanCurve):
            found["check_complex_data"] = ODD_CELL
    if isinstance(estimator, ImageFeatures):
        found["check_estimators_empty_data_messages"] = "features of no images are no features"
    return found


def named(estimators: Iterable[Any]) -> list[Any]:
    return [
        pytest.param(each, id=f"{type(each).__name__}-{i}") for i, each in enumerate(estimators)
    ]


def cheap_maps(pixels: Any) -> dict[str, Any]:
    """Stand in for the net: maps of its shapes, each a coarser image."""
    xp = namespace_of(pixels)
    return {
        name: xp.concat([pixels[:, :1, ::step, ::step]] * n_maps, axis=1)
        for name, step, n_maps in (("first", 1, 72), ("middle", 2, 144), ("last", 4, 288))
    }


@pytest.mark.parametrize("estimator", named([*INSTANCES.values(), *VARIANTS]))
@pytest.mark.filterwarnings("ignore:delta=")
def test_scikit_learn_contract(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks of an estimator; those that are expected to fail must fail."""
    # checks ask for single images, each fills a block
    monkeypatch.setattr(image_features, "BLOCK", 2)
    monkeypatch.setattr(generated_features, "net_maps", cheap_maps)  # the net has tests of its own
    # Some checks give lists for arrays, whose width is not public: see tests/test_odd_records.py.
    real = cells.checked_rows

    def lists_too(owner: Any, X: Any, **words: Any) -> Any:
        if isinstance(X, list | tuple):
            words["n_features"] = words.get("n_features") or len(X[0])
        return real(owner, X, **words)

    for module in (base, image_features, images, transfer, encoder):
        monkeypatch.setattr(module, "checked_rows", lists_too)
    expected = expected_failures(estimator)
    results = check_estimator(
        estimator, expected_failed_checks=expected, on_skip=None, on_fail=None
    )
    found = {
        f"{each['check_name']}: {each['exception'] or 'passes, and should not'!r}"
        for each in results
        if each["status"] not in (["xfail"] if each["expected_to_fail"] else ["passed", "skipped"])
    }
    assert found == set()
    assert len(results) > 20


# Private estimators ------------------------------------------------------------------------------


def digits_case() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:300] / 16.0, y[:300]


def blobs_case() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(200, n_features=3, centers=3, random_state=0)
    return X * 0.05, y


# Ranges that differ by a factor of a thousand, and rows that fill them.
SIDES = np.array([1.0, 10.0, 0.01])
RANGES = sf.Bounds(lower=-SIDES, upper=SIDES, labels=[0, 1, 2])
TABLE = sf.TableBounds.from_dict(
    {
        "size": {"lower": 0, "upper": 9, "missing": True},
        "colour": ["blue", "red"],
        "label": [0, 1, 2],
    },
    target="label",
)


def ranges_case() -> tuple[np.ndarray, np.ndarray]:
    X, y = blobs_case()
    return np.clip(X * 2, -1, 1) * SIDES, y


TABLE_EDGES = np.sqrt(0.5) * np.array(
    [[s * np.sqrt(0.5), 0, c, 1 - c] for s in (-1, 1) for c in (0, 1)] + [[0, np.sqrt(0.5), 0, 1]]
)


def table_case() -> tuple[np.ndarray, np.ndarray]:
    """Return encoded rows of a table; what frames do is in tests/tables/test_table_contract.py."""
    size, y = blobs_case()[0][:, 0], blobs_case()[1]
    rows = np.zeros((200, 4))
    rows[:, 0], rows[np.arange(200), 2 + (y > 0)] = np.clip(size, -0.5, 0.5), np.sqrt(0.5)
    rows[::9, :2] = 0, 0.5
    return rows, y


def pca_oracle(model: Any, X: np.ndarray, _: Any) -> None:
    right = np.linalg.svd(X, full_matrices=False)[2][: model.n_components_]
    np.testing.assert_allclose(np.abs(np.sum(right * model.components_, axis=1)), 1, atol=1e-4)


def moments_oracle(model: Any, X: np.ndarray, y: Any) -> None:
    means = [X[y == c].mean(axis=0) for c in model.classes_]
    np.testing.assert_allclose(model.means_, means, atol=1e-4)


def classifier_oracle(model: Any, X: np.ndarray, y: Any) -> None:
    assert model.score(X, y) > 0.95


def plane_case() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(size=(200, 2))
    return X, (X[:, 0] * 3).astype(int)


def curves_case() -> np.ndarray:
    heights = np.random.default_rng(0).normal(size=(150, 1))
    return np.asarray(np.sin(6 * np.linspace(0, 1, 20)) + 0.3 * heights)


def cells_oracle(model: Any, X: np.ndarray, _: Any) -> None:
    counts = np.histogram2d(*X.T, bins=16, range=[[0, 1]] * 2)[0]
    np.testing.assert_array_equal(model.cell_counts_.sum(axis=-1), counts)


def two_classes(case: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return case[0], (case[1] > 0).astype(int)


DRAWN = {"epsilon": 2.0, "delta": 1e-5, "n_components": 8, "random_state": 0}
HULLS = {"hull_components": 5, **DRAWN}
CUBE = sf.Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])
CUBE_OF_TWO = sf.Bounds(lower=0.0, upper=1.0, labels=[0, 1])
# A heavy ridge keeps the loss linear in all scores: a turned label then moves the machine by all
# of its sensitivity.
RIDGE = {"regularization": 1.0, "bandwidth": 0.4, "delta": 1e-5}
# Without the constant, opposite rows attain the sensitivity; many labels, for the noise on few
# numbers is only seen in many draws.
LINEAR = {"epsilon": 2.0, "delta": 1e-5, "fit_intercept": False}
# At two opposite corners of the box all hats are 0 or 1.
CORNERS = np.array([[-1.0] * 3, [1.0] * 3, [np.nan, -1.0, 1.0]])
ADDITIVE = {"n_knots": 5, "n_steps": 3, "delta": 1e-5}
# Rows all but alike: scores of others lie beyond the released spread, where moments are largest.
ALIKE = np.array([0.137, -0.211]) + 1e-4 * np.random.default_rng(0).normal(size=(200, 2))
CASES: dict[str, list[PrivateCase]] = {
    "PrivateLinearRegressor": [
        PrivateCase(
            sf.PrivateLinearRegressor(
                relation=relation,
                n_steps=2,
                target_bounds=(0.0, 1.0),
                delta=1e-5,
                bounds=sf.Bounds(lower=-1.0, upper=1.0),
            ),
            ALIKE,
            (np.arange(200) > 20).astype(float),
            rows_at_bound=np.array([[1.0, 1.0], [-1.0, -1.0]]),
        )
        for relation in ("replace_one", "add_or_remove_one")
    ],
    "PrivateAdditiveRegressor": [
        PrivateCase(
            sf.PrivateAdditiveRegressor(
                relation=relation,
                target_bounds=(0.0, 1.0),
                knots="private",  # the default releases one count more: tests/models
                interactions=False,
                bounds=sf.Bounds(lower=-1.0, upper=1.0),
                **ADDITIVE | {"n_steps": 2},
            ),
            ALIKE,
            (np.arange(200) > 20).astype(float),
            rows_at_bound=np.array([[1.0, 1.0], [-1.0, -1.0]]),
        )
        for relation in ("add_or_remove_one",)  # the other: tests/models/test_additive.py
    ],
    "PrivateAdditiveClassifier": [
        PrivateCase(
            sf.PrivateAdditiveClassifier(
                knots="private",
                bounds=sf.Bounds(lower=-1.0, upper=1.0, labels=[0, 1]),
                **ADDITIVE | {"n_knots": 33},
            ),
            *two_classes(blobs_case()),
            rows_at_bound=CORNERS,
        ),
        PrivateCase(
            sf.PrivateAdditiveClassifier(
                epsilon=8.0,  # so that counts of 40 labels are not all noise, of which fits warn
                relation="add_or_remove_one",
                bounds=sf.Bounds(lower=-1.0, upper=1.0, labels=range(40)),
                **ADDITIVE,
            ),
            *blobs_case(),
            rows_at_bound=CORNERS,
        ),
    ],
    # `fit` without a target is the private part: it makes the source's side.
    "PrivateTransferClassifier": [
        PrivateCase(
            sf.PrivateTransferClassifier(
                epsilon=2.0,
                delta=1e-5,
                n_components=5,
                bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2]),
                random_state=0,
            ),
            *digits_case(),
            oracle=classifier_oracle,
        ),
        PrivateCase(
            sf.PrivateTransferClassifier(
                relation="add_or_remove_one",
                n_components=5,
                bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2]),
                random_state=0,
            ),
            *digits_case(),
        ),
    ],
    "PrivateLinearClassifier": [
        PrivateCase(
            sf.PrivateLinearClassifier(
                whiten=True, n_steps=3, bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2]), **LINEAR
            ),
            *digits_case(),
        ),
        PrivateCase(
            sf.PrivateLinearClassifier(
                whiten=False,
                relation="add_or_remove_one",
                n_steps=4,
                bounds=sf.Bounds(norm=2.0, labels=range(20)),
                **LINEAR,
            ),
            *blobs_case(),
        ),
        PrivateCase(sf.PrivateLinearClassifier(n_steps=3, bounds=RANGES, **LINEAR), *ranges_case()),
        PrivateCase(
            sf.PrivateLinearClassifier(n_steps=2, bounds=TABLE, **LINEAR),
            *table_case(),
            rows_at_bound=TABLE_EDGES,
        ),
    ],
    "PrivateDensity": [
        PrivateCase(
            sf.PrivateDensity(n_cells=16, delta=1e-5, bounds=CUBE),
            *plane_case(),
            oracle=cells_oracle,
        ),
        PrivateCase(
            sf.PrivateDensity(n_cells=20, relation="add_or_remove_one", delta=1e-5, bounds=CUBE),
            plane_case()[0],
        ),
    ],
    "PrivateKernelClassifier": [
        PrivateCase(
            sf.PrivateKernelClassifier(
                bounds=sf.Bounds(lower=-SIDES, upper=SIDES, labels=[0, 1]), **RIDGE
            ),
            *two_classes(ranges_case()),
        ),
        PrivateCase(
            sf.PrivateKernelClassifier(bounds=CUBE_OF_TWO, **RIDGE), *two_classes(plane_case())
        ),
    ],
    "PrivateKernelRegressor": [
        PrivateCase(
            sf.PrivateKernelRegressor(target_bounds=(0.0, 1.0), bounds=CUBE, **RIDGE),
            *two_classes(plane_case()),
        )
    ],
    "PrivateMeanCurve": [
        PrivateCase(
            sf.PrivateMeanCurve(
                norm=1.0, relation=relation, delta=1e-5, bounds=sf.Bounds(lower=-2.0, upper=2.0)
            ),
            curves_case(),
        )
        for relation in ("replace_one", "add_or_remove_one")
    ],
    "GaussianFabricator": [
        PrivateCase(
            sf.GaussianFabricator(bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2]), **DRAWN),
            *digits_case(),
        ),
        PrivateCase(
            sf.GaussianFabricator(
                relation="add_or_remove_one",
                bounds=sf.Bounds(norm=2.0, labels=[0, 1, 2]),
                **DRAWN | {"n_components": 2},
            ),
            *blobs_case(),
        ),
    ],
    "EntryHullClassifier": [
        PrivateCase(sf.EntryHullClassifier(5, n_layers=1, bounds=CUBE, **more), *digits_case())
        for more in ({}, {"entry_bound": 0.25, "branch_size": 40})
    ],
    "PrivateAffineHullClassifier": [
        PrivateCase(
            sf.PrivateAffineHullClassifier(
                n_layers=2,
                samples_per_gaussian=60,
                bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2]),
                **HULLS,
            ),
            *digits_case(),
            oracle=classifier_oracle,
        ),
        PrivateCase(
            sf.PrivateAffineHullClassifier(
                n_layers=1,
                gaussians_per_class=2,
                samples_per_gaussian=60,
                bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2]),
                **HULLS,
            ),
            *digits_case(),
        ),
    ],
    "PrivatePCA": [
        PrivateCase(
            sf.PrivatePCA(3, bounds=sf.Bounds(norm=8.0)), digits_case()[0], oracle=pca_oracle
        ),
        PrivateCase(
            sf.PrivatePCA(2, relation="add_or_remove_one", bounds=sf.Bounds(norm=2.0)),
            blobs_case()[0],
        ),
    ],
    "PrivateLargeMarginGaussianClassifier": [
        PrivateCase(
            sf.PrivateLargeMarginGaussianClassifier(
                epsilon=2.0, delta=1e-5, bounds=sf.Bounds(norm=2.0, labels=[0, 1, 2])
            ),
            *blobs_case(),
            oracle=classifier_oracle,
        ),
        PrivateCase(
            sf.PrivateLargeMarginGaussianClassifier(
                epsilon=2.0,
                delta=1e-5,
                relation="add_or_remove_one",
                normalize_rows=True,
                bounds=sf.Bounds(norm=2.0, labels=[0, 1, 2]),
            ),
            *blobs_case(),
        ),
    ],
    "PrivateMoments": [
        PrivateCase(
            sf.PrivateMoments(bounds=sf.Bounds(norm=2.0, labels=[0, 1, 2])),
            *blobs_case(),
            oracle=moments_oracle,
        ),
        PrivateCase(sf.PrivateMoments(bounds=sf.Bounds(norm=2.0)), blobs_case()[0]),
        PrivateCase(
            sf.PrivateMoments(relation="add_or_remove_one", delta=1e-5, bounds=TABLE),
            *table_case(),
            rows_at_bound=TABLE_EDGES,
        ),
    ],
    "PrivateGaussianClassifier": [
        PrivateCase(
            sf.PrivateGaussianClassifier(
                5, epsilon=2.0, delta=1e-5, bounds=sf.Bounds(norm=8.0, labels=[0, 1, 2])
            ),
            *digits_case(),
            oracle=classifier_oracle,
        ),
        PrivateCase(
            sf.PrivateGaussianClassifier(
                None, relation="add_or_remove_one", bounds=sf.Bounds(norm=2.0, labels=[0, 1, 2])
            ),
            *blobs_case(),
        ),
        PrivateCase(
            sf.PrivateGaussianClassifier(epsilon=2.0, delta=1e-5, bounds=RANGES), *ranges_case()
        ),
    ],
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=f"{name}-{i}")
        for name, cases in CASES.items()
        for i, c in enumerate(cases)
    ],
)
def test_private_contract(case: PrivateCase) -> None:
    failures = {}
    for check in PRIVATE_CHECKS:
        try:
            check(case)
        except Exception as error:
            failures[check.__name__] = error
    assert failures == {}
