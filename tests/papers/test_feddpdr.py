"""FedDPDR-DPML: Algorithm 1 written out, its guarantees, claims that can fail."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.decomposition import TruncatedSVD

from sfumato import Bounds, Ledger, PrivateLinearClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.models.image_features import HOGFeatures
from sfumato.papers.data import Split, digits, unit_rows
from sfumato.papers.entry import Setting
from sfumato.papers.feddpdr import PrintedDPML, PrintedFedDPDR, experiments, printed
from sfumato.papers.feddpdr.experiments import ALIGNED, FIGURES, sentences
from sfumato.papers.feddpdr.methods import MENDED, RAW, UNIT, fit_federation, learn, not_private
from sfumato.privacy.guarantee import Status

Parties = list[tuple[np.ndarray, np.ndarray]]
BALL = Bounds(norm=1.0, labels=[0, 1])


@pytest.fixture(scope="module")
def parties() -> Parties:
    split = digits()
    return [(unit_rows(split.X[i::5]), split.y[i::5] % 2) for i in range(5)]


@pytest.mark.parametrize("aggregation", ["printed", "aligned"])
def test_algorithm_1_is_the_printed_one(
    aggregation: str, parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator, bases, weights, seen = np.random.default_rng(0), [], [], []

    def basis_of(own: object, kept: int, _: object) -> np.ndarray:
        bases.append(np.linalg.qr(generator.normal(size=(64, kept)))[0])
        return bases[-1]

    def weights_of(own: object, rows: np.ndarray, _: object) -> np.ndarray:
        seen.append(rows)
        weights.append(generator.normal(size=(1, rows.shape[1])))
        return weights[-1]

    monkeypatch.setattr(printed, "_printed_basis", basis_of)
    monkeypatch.setattr(printed, "_printed_weights", weights_of)
    two = [(parties[0][0][:50], parties[0][1][:50]), (parties[1][0][:150], parties[1][1][:150])]
    given = {"epsilon": 1.0, "delta": 1e-4, "bounds": BALL}
    model = PrintedFedDPDR(3, aggregation=aggregation, **given).fit(two)
    if aggregation == "printed":  # (1/N) sum_i w_i U_i, signs as they come
        basis = (0.25 * bases[0] + 0.75 * bases[1]) / 2
        direction = (0.25 * weights[0] + 0.75 * weights[1]) / 2
    else:
        signed = [b * np.sign(b[np.abs(b).argmax(axis=0), range(3)]) for b in bases]
        basis = 0.25 * signed[0] + 0.75 * signed[1]
        direction = 0.25 * weights[0] + 0.75 * weights[1]
    np.testing.assert_allclose(model.projection_, basis)
    np.testing.assert_allclose(seen[1], two[1][0] @ basis)
    points = unit_rows(generator.normal(size=(50, 64)))
    assert np.array_equal(model.predict(points), (points @ basis @ direction[0] > 0).astype(int))


def test_the_guarantee_counts_every_class_and_every_party_pays(tmp_path, parties: Parties) -> None:
    split = digits()
    ends = ((0, 100), (100, 1100), (1100, 1200))  # the largest party pays most
    ten = [(unit_rows(split.X[i:j]), split.y[i:j]) for i, j in ends]
    budget = Ledger(tmp_path / "l.db").create("rows", epsilon=1000.0, delta=0.5)
    bounds = Bounds(norm=1.0, labels=range(10))
    model = PrintedFedDPDR(5, epsilon=2.0, delta=1e-4, bounds=bounds, ledger=budget).fit(ten)
    alone = PrintedDPML(5, epsilon=2.0, delta=1e-4, bounds=bounds).fit(*ten[1])
    x, other = np.eye(2)  # replacing a row by an orthogonal one moves the second moment by √2
    moved = np.linalg.norm(np.outer(x, x) - np.outer(other, other))
    drawn = np.sqrt(2 * np.log(1.25 / 1e-4))  # the printed deviation, for half of epsilon 2
    assert alone.guarantee_.events[0].noise_multiplier == pytest.approx(drawn / moved)
    assert model.guarantee_.epsilon == pytest.approx(alone.guarantee_.epsilon, rel=1e-3)
    assert model.guarantee_.epsilon > 7.0  # ten machines, each with epsilon 1
    stated = model.guarantee_
    assert (stated.status, stated.claimed_epsilon) == (Status.CONDITIONAL, 2.0)
    assert any("one party only" in each for each in stated.conditions)
    X, y = ten[1]
    for second in ((X[:, :30], y), (X, y[1:]), (X,), None):  # all is checked before the charge
        with pytest.raises(InvalidInputError):
            model.fit([ten[0], second])
    with pytest.raises(InvalidInputError, match="must be listed"):  # each party has other labels
        model.set_params(bounds=Bounds(norm=1.0, labels="public")).fit(ten)
    assert len(budget.events()) == 3 * 11


@pytest.mark.parametrize("n", [2, 3])
def test_two_parties_or_more_make_a_mended_federation(n: int, parties: Parties) -> None:
    estimator = PrivateLinearClassifier(n_steps=2, epsilon=1.0, delta=1e-4, bounds=BALL)
    stated = fit_federation(parties[:n], estimator).guarantee_
    assert (stated.status, stated.epsilon) == (Status.CONDITIONAL, pytest.approx(1.0))
    assert f"at most {n - 2} parties work with the coordinator" in stated.conditions


def test_non_priv_is_a_machine_in_principal_components(parties: Parties) -> None:
    rule = not_private(parties, 10)
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


@pytest.mark.parametrize("way", [RAW, UNIT, MENDED])
def test_a_large_budget_is_nearly_as_good_as_no_noise(way: str, parties: Parties) -> None:
    split = digits()
    test = split.X_test if way == RAW else unit_rows(split.X_test)
    if way == RAW:
        parties = [(split.X[i::5], split.y[i::5] % 2) for i in range(5)]
    with seeded_noise(0), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for method in ("DPML", "DPDR-DPML", ALIGNED):
            (rule,) = learn(method, [(X[:200], y[:200]) for X, y in parties], way, 1000.0, 20)
            assert np.mean(rule(test) == split.y_test % 2) > 0.75, method
        uneven = [(X[:n], y[:n]) for n, (X, y) in zip((40, 50, 200), parties, strict=False)]
        assert len(learn("DPDR-DPML", uneven, way, 4.0, 5)) == 3  # each of another size is asked
    assert (RefutedGuaranteeWarning in {each.category for each in said}) is (way == RAW)


@pytest.mark.parametrize(("method", "reading"), [("FedDPDR-DPML", "printed"), (ALIGNED, "aligned")])
def test_both_readings_are_compared(method: str, reading: str, parties: Parties) -> None:
    given = {"epsilon": 8.0, "delta": 1e-4, "bounds": BALL}
    with seeded_noise(0):
        model = PrintedFedDPDR(20, aggregation=reading, **given).fit(parties)
    with seeded_noise(0):
        (rule,) = learn(method, parties, UNIT, 8.0, 20)
    assert np.array_equal(rule(parties[0][0]), model.predict(parties[0][0]))


def test_pictures_of_cifar_are_histograms_of_gradients_at_full_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pictures = np.random.default_rng(0).random((4, 32, 32, 3)).astype(np.float32)
    rows, y = pictures.transpose(0, 3, 1, 2).reshape(4, -1), np.array([0, 3, 8, 5])  # by colour
    monkeypatch.setattr(experiments, "images", lambda *_: Split(rows, y, rows[:2], y[:2]))
    split = experiments.split_of(Setting(), "CIFAR-10")
    expected = HOGFeatures((32, 32, 3)).fit_transform(pictures.reshape(4, -1))
    np.testing.assert_allclose(split.X, 7 * expected, rtol=1e-6)
    assert split.X.shape == (4, 1764)
    np.testing.assert_array_equal(split.y, [1, 0, 1, 0])  # vehicles, animals


GOOD = {
    "Non-Priv": [[0.80, 0.81], [0.85, 0.86], [0.90, 0.91]],
    "DPML": [[0.50, 0.51], [0.60, 0.61], [0.70, 0.71]],
    "DPDR-DPML": [[0.70, 0.71], [0.75, 0.76], [0.80, 0.81]],
    ALIGNED: [[0.78, 0.79], [0.83, 0.84], [0.88, 0.89]],
}
LINE = [[0.5, 0.5], [0.9, 0.9], [0.7, 0.7]]


@pytest.mark.parametrize("name", FIGURES)
def test_sentences_hold_for_curves_that_show_them_and_fail_for_others(name: str) -> None:
    at = ["a", "b", "c"]
    held = sentences(name, GOOD, at)
    assert len(held) >= 6
    assert all(held.values())
    for method, claim in (
        ("DPML", "b: DPDR-DPML is more accurate than DPML"),
        ("DPML", "b: FedDPDR-DPML is more accurate than DPML"),
        ("Non-Priv", "a: FedDPDR-DPML is close to Non-Priv"),
        ("Non-Priv", "b: FedDPDR-DPML is close to Non-Priv"),
        ("DPDR-DPML", "b: FedDPDR-DPML is more accurate than DPDR-DPML"),
        ("DPML", "b to c: DPML becomes more accurate"),
        ("DPDR-DPML", "b to c: DPDR-DPML becomes more accurate"),
    ):
        found = sentences(name, {**GOOD, method: LINE}, at)
        assert claim not in held or found[claim] is False


@pytest.mark.parametrize(("seconds", "holds"), [(2.0, True), (0.1, False)])
def test_running_times_are_compared_with_that_of_dpml(
    monkeypatch: pytest.MonkeyPatch, seconds: float, holds: bool
) -> None:
    clock = [0.0]

    def learned(method: str, *_: object) -> None:
        clock[0] += seconds if method == "DPML" else 1.0

    monkeypatch.setattr(experiments, "learn", learned)
    monkeypatch.setattr(experiments.time, "process_time", lambda: clock[0])
    found = experiments.table_3(Setting(quick=True, runs=2))
    assert list(found.claims.values()) == [holds] * 5
    assert [row.paper for row in found.comparisons] == [1.0, seconds, 1.0, 0.2]  # of five parties


@pytest.mark.parametrize(("figure", "fits"), [(2, 15), (3, 16), (4, 18)])
def test_points_share_fits(monkeypatch: pytest.MonkeyPatch, figure: int, fits: int) -> None:
    asked = []  # DPML and the mended federation have no dimension, Non-Priv no budget
    monkeypatch.setattr(experiments, "learn", lambda *what: asked.append(what) or [len])
    few = Split(*(part[:20] for part in (digits().X, digits().y) * 2))
    points = FIGURES[f"figure-{figure}"][1]
    experiments.curves(few, points[:2], Setting(runs=1), {})
    assert len(asked) == fits
    last = Setting(quick=True, runs=1, cell={"at": points[-1].at, "data": "CIFAR-10"})
    assert experiments.figure(last, f"figure-{figure}").comparisons  # any cell, of the digits
