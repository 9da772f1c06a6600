"""Transfer between digits and between domains: printed figures, labels kept, what is averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.datasets import load_digits

from sfumato import Bounds, MembershipMapping
from sfumato.models.transfer import all_errors, fit_autoencoders
from sfumato.papers import Setting
from sfumato.papers.cdmma import (
    MembershipFunctions,
    MembershipTransferClassifier,
    digits as mappings,
    student_t_membership,
)
from sfumato.papers.cdmma.digits import known_labels
from sfumato.privacy.guarantee import Status

pytestmark = pytest.mark.filterwarnings("ignore:The target is not protected")

QUICK = Setting(quick=True, runs=2)


# Digits ------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 2**31)
)
def test_labels_are_kept_by_class(labels: list[int], per_class: int, seed: int) -> None:
    y = np.array(labels)
    kept = known_labels(y, per_class, seed)
    shown = kept >= 0
    assert np.array_equal(kept[shown], y[shown])
    for label in np.unique(y):
        assert np.sum(kept == label) == min(per_class, np.sum(y == label))
    assert np.array_equal(kept, known_labels(y, per_class, seed))


def test_target_and_test_rows_are_different_rows() -> None:
    same = mappings.mnist_to_mnist(QUICK)
    assert len(same.target) + len(same.test) == 500
    joined = {row.tobytes() for row in same.target} & {row.tobytes() for row in same.test}
    assert not joined
    wide, narrow = (mappings.across(QUICK, *s) for s in (("mnist", "usps"), ("usps", "mnist")))
    assert (wide.source.shape[1], wide.target.shape[1]) == (64, 32)
    assert (narrow.source.shape[1], narrow.target.shape[1]) == (32, 64)
    first = narrow.target[0].reshape(8, 8)
    halves = (first[:, ::2] + first[:, 1::2]) / 2
    assert wide.target[0].reshape(8, 4) == pytest.approx(halves)


# Membership functions ----------------------------------------------------------------------------


def test_degrees_of_membership_agree_with_the_mapping(rng: np.random.Generator) -> None:
    x = rng.random((40, 2))
    y = np.sin(5 * x[:, 0]) + 0.1 * rng.normal(size=40)
    mapping = MembershipMapping(center=False, random_state=0).fit(x, y)
    functions = MembershipFunctions(mapping, x)
    u = functions.auxiliary(y)
    best = functions.interpolation @ u
    assert best == pytest.approx(mapping.predict(x), abs=1e-6)  # (48)
    assert functions.tau == pytest.approx(mapping.tau_ * mapping.kernel_variance_, rel=1e-6)
    assert functions.of_output(best, u) == 1.0  # (18)
    beta, m = mapping.noise_precision_, np.linalg.solve(functions.K_aa, u)
    terms = y @ y - 2 * m @ functions.K_xa.T @ y + m @ functions.K_xa.T @ functions.K_xa @ m
    literal = np.exp(-0.5 * beta * (terms + functions.tau * m @ u))  # (45), written out
    assert functions.of_data(y, u) == pytest.approx(literal, rel=1e-6)
    for _ in range(20):  # largest at the outputs
        assert functions.of_data(best + 0.05 * rng.normal(size=40), u) < functions.of_data(best, u)


def test_inputs_that_repeat_have_degrees_too() -> None:
    """The matrix (20) of repeated inputs is singular."""
    X = load_digits().data[:100] / 16  # a column that is constant, and few values in the others
    mapping = MembershipMapping(center=False, random_state=0).fit(X[:, :3], X[:, 3])
    functions = MembershipFunctions(mapping, X[:, :3])
    u = functions.auxiliary(X[:, 3])
    assert functions.of_output(functions.interpolation @ u, u) == 1.0
    assert 0 <= functions.of_output(X[:, 3], u) < functions.of_data(X[:, 3], u) <= 1


def test_student_t_membership_is_consistent() -> None:
    """Equation (11): integrating one value out leaves the function of the other."""
    K, nu = np.array([[1.0, 0.6], [0.6, 2.0]]), 5.0
    line = np.linspace(-40, 40, 201)
    both = [sum(student_t_membership([a, b], [0, 0], K, nu) for b in line) for a in (0.0, 1.5)]
    one = [student_t_membership([a], [0], K[:1, :1], nu) for a in (0.0, 1.5)]
    assert both[1] / both[0] == pytest.approx(one[1] / one[0], rel=1e-3)


# The printed system ------------------------------------------------------------------------------


CUBE = Bounds(lower=0.0, upper=1.0, labels=range(10))
Digits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def digits() -> Digits:
    X, y = load_digits(return_X_y=True)
    X = X / 16
    return X[:500], y[:500], X[1100:1500], y[1100:1500]


def model(**parameters: Any) -> MembershipTransferClassifier:
    given: dict[str, Any] = {"epsilon": np.inf, "delta": 1e-5, "bounds": CUBE, "random_state": 0}
    return MembershipTransferClassifier(
        **(given | {"schedule": (5, 10), "n_layers": 2} | parameters)
    )


def test_the_least_error_of_any_term_decides(digits: Digits) -> None:
    S, s, T, t = digits
    fitted = model().fit(S, s)
    assert set(fitted.terms(T[:4])) == {"source"}
    assert fitted.score(T, t) > 0.75
    fitted.fit_target(T, known_labels(t, 3, 0))
    terms = fitted.terms(T[:50])
    assert list(terms) == ["target", "source_to_target", "source"]
    least = np.min(list(terms.values()), axis=0)  # equation (87)
    np.testing.assert_array_equal(fitted.predict(T[:50]), least.argmin(axis=1))


def test_the_target_part_runs_in_fewer_coordinates(digits: Digits) -> None:
    """Equation (79) is an isometry: the same errors as in the source's space."""
    S, s, T, t = digits
    unlike = T[:, :48]
    fitted = model().fit(S, s)
    found = fitted.fit_target(unlike, known_labels(t, 4, 0))
    n_kept = fitted.target_directions_.shape[1]
    assert n_kept == 32
    points = unlike @ fitted.target_directions_
    mapped = points @ fitted.source_directions_[:n_kept]  # (79)
    codes = np.searchsorted(fitted.classes_, found)
    here, there = (
        fit_autoencoders(
            fitted, np.random.RandomState(0), rows, codes, 10, width=64, n_layers=2, center=False
        )
        for rows in (points, mapped)
    )
    here, there = all_errors(here, points[:80], 10), all_errors(there, mapped[:80], 10)
    np.testing.assert_allclose(here, there, rtol=2e-3, atol=2e-4)  # single precision


def test_the_promise_is_for_one_number_and_says_so(digits: Digits) -> None:
    S, s, T, t = digits
    fitted = model(epsilon=0.1, n_layers=1).fit(S[:100], s[:100])
    stated = fitted.guarantee_
    assert (stated.status, stated.unit) == (Status.PROVED, "entry")
    assert (stated.epsilon, stated.delta) == (0.1, 1e-5)
    assert stated.record_reading.atom_probability > 0
    with pytest.warns(UserWarning, match="target is not protected"):
        fitted.fit_target(T[:100], t[:100])
    assert fitted.guarantee_.status is Status.CONDITIONAL
