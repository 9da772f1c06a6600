"""The four linear classifiers: Algorithm 1 written out, claims that can fail, printed seconds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.decomposition import TruncatedSVD

from sfumato.audit.testing import seeded_noise
from sfumato.papers.data import digits, unit_rows
from sfumato.papers.feddpdr import (
    methods as federated_methods,
)
from sfumato.papers.feddpdr.experiments import FIGURES, judged
from sfumato.papers.feddpdr.methods import (
    RAW,
    STRICT,
    UNIT,
    Federation,
    printed_federation,
)

# What `reproduce` silences for every entry.
quietly = pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")


@pytest.fixture(scope="module")
def parties() -> list[tuple[np.ndarray, np.ndarray]]:
    split = digits()
    return [(unit_rows(split.X[i::5]), split.y[i::5] % 2) for i in range(5)]


class Given:
    """Returns the bases or weights of a list, one a fit, and keeps the rows it saw."""

    def __init__(self, answers: list[np.ndarray]) -> None:
        self.answers = list(answers)
        self.rows: list[np.ndarray] = []
        self.epsilon, self.delta = 0.1, 1e-4

    def fit(self, X: np.ndarray, y: np.ndarray) -> SimpleNamespace:
        self.rows.append(X)
        answer = self.answers.pop(0)
        return SimpleNamespace(projection_=answer, weights_=answer)


def test_algorithm_1_is_the_printed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    sizes = [10, 30]
    parties = [(generator.normal(size=(n, 4)), np.arange(n) % 2) for n in sizes]
    bases = [generator.normal(size=(4, 2)) for _ in sizes]
    weights = [generator.normal(size=(1, 2)) for _ in sizes]
    second, asked = Given(weights), {}

    def build(**parameters: Any) -> Given:
        asked.update(parameters)
        return second

    monkeypatch.setattr(federated_methods, "PrintedDPML", build)
    rule = printed_federation(parties, Given(bases), raw=False)  # type: ignore[arg-type]

    basis = (0.25 * bases[0] + 0.75 * bases[1]) / 2
    direction = basis @ (0.25 * weights[0][0] + 0.75 * weights[1][0]) / 2
    points = generator.normal(size=(50, 4))
    assert np.array_equal(rule(points), (points @ direction > 0).astype(int))
    assert second.rows[1] == pytest.approx(parties[1][0] @ basis)
    assert (asked["epsilon"], asked["bounds"].norm) == (0.05, 1.0)


def test_non_priv_is_a_machine_in_principal_components(
    parties: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    (rule,) = Federation(parties, UNIT, 0.1, 10).learn("Non-Priv")
    X, y = max(parties, key=lambda party: len(party[1]))
    reduction = TruncatedSVD(10, algorithm="arpack").fit(X)
    Z, signs = reduction.transform(X), 2 * y - 1

    def objective(w: np.ndarray) -> float:
        inside = np.clip(1.5 - signs * (Z @ w), 0.0, None)
        hinge = np.where(inside > 1, inside - 0.5, inside**2 / 2)
        return float(hinge.mean() + 0.005 * w @ w)

    literal = minimize(objective, np.zeros(10)).x
    test = unit_rows(digits().X_test)
    assert np.mean(rule(test) == (reduction.transform(test) @ literal > 0)) > 0.995


def test_each_party_of_another_size_is_asked(
    parties: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    alike = [(X[:200], y[:200]) for X, y in parties]
    uneven = [(X[:n], y[:n]) for n, (X, y) in zip((20, 50, 200), parties, strict=False)]
    assert len(Federation(alike, UNIT, 4.0, 5).learn("DPML")) == 1
    assert len(Federation(uneven, UNIT, 4.0, 5).learn("DPDR-DPML")) == 3
    assert len(Federation(uneven, STRICT, 4.0, 5).learn("FedDPDR-DPML")) == 1


@quietly
@pytest.mark.parametrize("way", [RAW, UNIT, STRICT])
def test_a_large_budget_is_nearly_as_good_as_no_noise(
    way: str, parties: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    split = digits()
    test = split.X_test if way == RAW else unit_rows(split.X_test)
    if way == RAW:
        parties = [(split.X[i::5], split.y[i::5] % 2) for i in range(5)]
    with seeded_noise(0):
        federation = Federation(parties, way, 1000.0, 20)
        for method in ("DPML", "DPDR-DPML", *(["FedDPDR-DPML"] if way == STRICT else [])):
            (rule, *_) = federation.learn(method)
            assert np.mean(rule(test) == split.y_test % 2) > 0.8, method


GOOD = {
    "Non-Priv": [0.80, 0.85, 0.9],
    "DPML": [0.50, 0.60, 0.7],
    "DPDR-DPML": [0.70, 0.75, 0.8],
    "FedDPDR-DPML": [0.78, 0.83, 0.88],
}


@pytest.mark.parametrize("name", FIGURES)
def test_what_the_paper_says_holds_for_curves_that_show_it(name: str) -> None:
    assert all(judged(name, GOOD).values())
    assert len(judged(name, GOOD)) == 3


@pytest.mark.parametrize(
    ("name", "change", "claim"),
    [
        ("figure-2", {"DPDR-DPML": [0.7, 0.75, 0.6]}, "accuracy rises with the dimension k"),
        ("figure-3", {"FedDPDR-DPML": [0.7, 0.83, 0.88]}, "FedDPDR-DPML is close to Non-Priv"),
        ("figure-3", {"DPML": [0.5, 0.77, 0.7]}, "DPDR-DPML is more accurate than DPML"),
        ("figure-4", {"DPML": [0.5, 0.4, 0.5]}, "accuracy rises with the number of rows"),
        ("figure-5", {"DPML": [0.9, 0.6, 0.7]}, "FedDPDR-DPML is more accurate than DPML"),
    ],
)
def test_each_claim_can_fail(name: str, change: dict[str, list[float]], claim: str) -> None:
    assert judged(name, GOOD | change)[claim] is False


# Table 3 -----------------------------------------------------------------------------------------


# Kept benchmarks ---------------------------------------------------------------------------------
