"""The experiments of the hull paper against their own definitions."""

from __future__ import annotations

import itertools
from typing import Any

import array_api_strict
import numpy as np
import pytest

from sfumato import AffineHullClassifier, EntryHullClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.models import hull_search
from sfumato.papers import Setting, entry_of, reproduce
from sfumato.papers.data import Split, digits
from sfumato.papers.kahm import (
    PrintedAffineHullClassifier,
    experiments,
    hull_bounds,
    smoothing,
    smoothing_errors,
)
from sfumato.papers.kahm.experiments import Fit, Scored, classifier
from sfumato.papers.kahm.smoothing import fabricate_groups, smoothing_pass
from tests.models.literal_hulls import LiteralHull


def test_the_classifier_is_the_definition_asked_for() -> None:
    split = digits()
    assert isinstance(classifier(Fit("mnist", None), split, "cuda"), AffineHullClassifier)
    printed = classifier(Fit("mnist", 4.0, 5, 12, "paper"), split)
    assert isinstance(printed, PrintedAffineHullClassifier)
    assert (printed.fabricate, printed.raw_clusters, printed.hull_components) == (False, False, 5)
    assert classifier(Fit("mnist", 4.0, mode="raw clusters"), split).raw_clusters
    strict = classifier(Fit("mnist", 4.0), split)
    assert isinstance(strict, EntryHullClassifier)
    assert (strict.n_smoothing, strict.unit, strict.entry_bound) == (None, "entry", 1.0)
    assert (strict.hull_components, strict.n_layers, strict.delta) == (20, 5, 1e-5)


def test_a_federation_takes_the_nearest_hull_of_all_parties() -> None:
    split, fit = digits().first(400, 60), Fit("mnist", 16.0, parties=2)
    parts = experiments.spread(split.y, "random", 2, random_state=0)
    with seeded_noise(3):
        found = experiments.scored(split, None, fit)
    with seeded_noise(3):
        distances = [
            classifier(fit, split).fit(split.X[part], split.y[part]).distances(split.X_test)
            for part in parts
        ]
    nearest = np.min(distances, axis=0).argmin(axis=1)
    assert found.accuracy == np.mean(nearest == split.y_test)


def test_memberships_are_distances_of_training_rows_in_units_of_the_data() -> None:
    X, y, X_test, y_test, *_ = vars(digits().first(300, 60)).values()
    split, fit = Split(2 * X - 1, y, 2 * X_test - 1, y_test, lower=-1.0), Fit("mnist", 16.0)
    with seeded_noise(3):
        found = experiments.scored(split, None, fit)
    with seeded_noise(3):
        model = classifier(fit, split).fit(split.X, y)
    for seen, rows in ((np.sort(found.inside), split.X), (np.sort(found.outside), split.X_test)):
        expected = np.sort(2 * model.distances(rows).min(axis=1))
        np.testing.assert_allclose(seen, expected, rtol=1e-4)


def put_in(monkeypatch: pytest.MonkeyPatch, accuracy: Any) -> list[Fit]:
    """Let fits give what a function says, and note them."""
    seen: list[Fit] = []

    def scored(split: Split, device: str | None, fit: Fit) -> Scored:
        seen.append(fit)
        return Scored(accuracy(fit), accuracy(fit) ** 2 / 10, np.arange(2.0), np.arange(2.0))

    monkeypatch.setattr(experiments, "scored", scored)
    monkeypatch.setattr(experiments, "split_of", lambda *_: digits())
    return seen


def test_figures_are_means_over_runs_and_known_fits_are_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = put_in(monkeypatch, lambda fit: fit.run + (fit.mode == "strict"))
    setting = Setting(runs=3, cell={"eps": "16"})
    (distributed, centralized) = experiments.federated_table(setting, 8).comparisons
    assert (distributed.paper, distributed.strict, distributed.paper_sd) == (1.0, 2.0, 1.0)
    assert distributed.what == "eps 16, distributed"
    assert (distributed.printed, centralized.printed) == (0.9847, 0.9851)
    assert len(seen) == 12
    experiments.federated_table(setting, 9)
    assert len(seen) == 18
    assert len(set(seen)) == 18


@pytest.mark.parametrize("gain", [0.0, -0.01, 0.01])
@pytest.mark.parametrize(("number", "change"), [(8, -0.0004), (9, -0.0044), (10, -0.0094)])
def test_a_full_table_is_judged_by_its_figures(
    monkeypatch: pytest.MonkeyPatch, number: int, change: float, gain: float
) -> None:
    """With the printed figures in the place of ours a table is met; with others it is not."""

    def ours(fit: Fit) -> float:
        if number == 10:
            return experiments.TABLE_10[fit.parties] + gain
        column = experiments.CENTRAL if fit.parties == 1 else experiments.SCENARIOS[number][1]
        return column[experiments.EPSILONS.index(fit.epsilon)] + gain

    put_in(monkeypatch, ours)
    found = reproduce(entry_of("kahm", f"table-{number}"), Setting(runs=1))
    assert found.verdict == ("reproduced" if gain == 0 else "not reproduced")
    changes = [row for row in found.outcome.comparisons if row.what.startswith("change")]
    assert len(changes) == {8: 9, 9: 9, 10: 7}[number]
    printed = [row.printed for row in changes]
    assert [row.paper for row in changes] == pytest.approx(printed, abs=2e-6)
    assert changes[-1].printed == pytest.approx(change, abs=6e-5)  # as the paper prints it
    first = {8: -0.0018, 9: -0.0094, 10: -0.0030}[number]
    assert changes[0].printed == pytest.approx(first, abs=1e-9)


def test_the_largest_hull_is_compared_with_the_printed_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seconds, holds in ((1.0, True), (3.0, False)):
        clock = itertools.count(step=seconds)
        monkeypatch.setattr(experiments.time, "process_time", clock.__next__)
        claims = experiments.table_11(Setting(quick=True, runs=2)).claims
        assert claims == {"999,192 numbers take no more than 2 s": holds}


def test_a_mean_counts_a_cell_as_often_as_it_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, _ = experiments.TWICE[5]
    put_in(monkeypatch, lambda f: ((f.epsilon, f.n) == cell) + 3.0 * (f.mode == "raw clusters"))
    found = experiments.private_table(Setting(runs=1), 5).comparisons
    rows = {(row.what, row.unit): row for row in found}
    mean = rows["mean of the table, Definition 12", "accuracy"]
    assert (mean.printed, mean.paper) == pytest.approx((0.9771, 2 / 14), abs=6e-5)
    assert rows["eps 1, n 20, Definition 12, clusters of raw rows", "accuracy"].paper == 3.0
    assert rows["printed again: eps 32, n 20, Definition 12", "mis"].printed == 0.35451


def test_hulls_must_be_ahead_of_the_best_rival() -> None:
    for best, holds in ((0.7, True), (0.9, False)):
        of_split = {name: [(0.5, 0.5)] for name in experiments.GROCERIES} | {"SVM": [(best, best)]}
        of_split |= {experiments.HULLS: [(0.8, 0.8)], experiments.OWN_RIVAL: [(0.85, 0.85)]}
        memory = {"groceries": dict.fromkeys(range(1, 6), of_split)}
        claims = experiments.groceries_table(Setting(runs=1, memory=memory), 3).claims
        assert list(claims.values()) == [holds, False]


def test_figures_show_what_fabricated_rows_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Per cent of each run in Figure 14; a lower score in Figure 13."""
    put_in(
        monkeypatch, lambda fit: 0.9 - 0.1 * fit.run if fit.epsilon and fit.definition == 15 else 1
    )
    shown = experiments.figure_14(Setting(runs=2))
    assert list(shown.claims.values()) == [True] * 4
    less = shown.comparisons[0]
    assert less.what == "Table 6, eps 5, n 20, less accuracy"
    assert (less.printed, less.paper, less.strict_sd) == pytest.approx(
        (1.6804, 15, 50**0.5), rel=1e-4
    )
    found = experiments._13(Setting(runs=2))
    assert list(found.claims.values()) == [True]
    assert [row.within for row in found.comparisons[1:3]] == pytest.approx([0.007377, 0.004])


# Smoothing, against the printed formulas ----------------------------------------------------------


def literal_error(Y: np.ndarray, n: int) -> float:
    return float(np.linalg.norm(Y - LiteralHull(Y, n).image(Y), axis=1).sum())


@pytest.mark.parametrize("passes", [1, 2, 4])
@pytest.mark.parametrize("shape", [(40, 6), (12, 30)])
def test_equals_the_printed_recursion(
    rng: np.random.Generator, passes: int, shape: tuple[int, int]
) -> None:
    """Equations (80) to (82) and (89), one matrix at a time."""
    Y = rng.random(shape) + 0.2 * rng.laplace(size=shape)
    how = {"n_components": 3, "passes": passes}
    ((found, n_passes),) = fabricate_groups([Y], dtype="float64", **how)
    assert n_passes == passes
    ((fast, _),) = fabricate_groups([Y], **how)
    error = smoothing_pass(Y, n_components=3).error
    assert error == pytest.approx(literal_error(Y, 3), rel=1e-10)
    for _ in range(passes - 1):
        hull = LiteralHull(Y, 3)
        Y = hull.h(Y).sum(axis=1, keepdims=True) * hull.image(Y)
    expected = LiteralHull(Y, 3).image(Y)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(fast, expected, atol=1e-4)


@pytest.mark.parametrize(("start", "ratio"), [(0, 0.9), (1, 0.5), (2, 0.2), (3, 0.05)])
def test_a_threshold_stops_at_the_first_pass_below_it(start: int, ratio: float) -> None:
    Y = np.random.default_rng(start).normal(size=(15, 3))
    threshold = ratio * literal_error(Y, 2)
    ((_, n_passes),) = smoothing.smooth_until([threshold], [Y], n_components=2, passes=6)
    errors = []
    for _ in range(6):
        errors.append(literal_error(Y, 2))
        hull = LiteralHull(Y, 2)
        Y = hull.K @ hull.inverse @ Y
    below = [i + 1 for i, error in enumerate(errors) if error <= ratio * errors[0]]
    assert n_passes == (below[0] if below else 6)


@pytest.mark.parametrize(
    "Y",
    [
        np.full((5, 3), 0.3),
        np.zeros((4, 2)),
        np.array([[0.1, 0.2, 0.3]]),
        np.array([[0.0, 1.0], [1.0, 1.0]]),
        np.column_stack([np.linspace(0, 1, 9), np.ones(9)]),
    ],
)
def test_degenerate_rows_stay_finite(Y: np.ndarray) -> None:
    ((found, _),) = fabricate_groups([Y], dtype="float64", n_components=20, passes=3)
    assert found.shape == Y.shape
    assert np.isfinite(found).all()
    if len(np.unique(Y, axis=0)) == 1:
        np.testing.assert_array_equal(found, Y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_other_arrays_give_the_same(rng: np.random.Generator, dtype: str) -> None:
    Y, how = rng.random((30, 6)), {"n_components": 3, "passes": 3, "dtype": dtype}
    ((plain, _),) = fabricate_groups([Y], **how)
    ((foreign, _),) = fabricate_groups([array_api_strict.asarray(Y)], **how)
    assert type(foreign) is type(array_api_strict.asarray(Y))
    np.testing.assert_allclose(np.asarray(foreign), plain, atol=1e-6)


def test_groups_in_one_stack_are_smoothed_as_each_alone(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an accelerator; they differ in size and in number of passes, and one is a point."""
    groups = [rng.random((n, 6)) + 0.3 * rng.laplace(size=(n, 6)) for n in (30, 50, 20)]
    groups.append(np.full((5, 6), 0.5))
    how = {"n_components": 3, "passes": 6, "dtype": "float64"}
    raw = [rows * r for rows, r in zip(groups, (1.1, 0.5, 0.2, 1), strict=True)]
    for stop in ({"raw": raw}, {"noise": 6 * 2 * 0.3**2}):
        alone = fabricate_groups(groups, **how, **stop)
        with monkeypatch.context() as patch:
            for module in (smoothing, hull_search):
                patch.setattr(module, "is_accelerated", lambda _: True)
            together = fabricate_groups(groups, **how, **stop)
        for (found, passes), (expected, number) in zip(together, alone, strict=True):
            assert passes == number
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_modelling_error_falls_towards_zero(rng: np.random.Generator) -> None:
    """Theorem 6."""
    errors = smoothing_errors(rng.normal(size=(100, 10)), 3)
    assert len(errors) == 40
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05 * errors[0]


def test_the_bounds_of_the_theorems_hold_near_the_rows(rng: np.random.Generator) -> None:
    """Theorems 2 to 5, by the literal kernel matrix."""
    Y = rng.random((60, 4))
    found, hull = hull_bounds(Y, 3), LiteralHull(Y, 3)
    values = np.linalg.eigvalsh(hull.K)
    shrink = (hull.regularization + values[-1]) / (hull.regularization + values[0])
    assert found.ratio == pytest.approx(shrink, rel=1e-6)
    points = rng.random((200, 4))
    images = hull.image(points)
    assert np.linalg.norm(images, axis=1).max() < found.image < found.image_loose
    away = np.linalg.norm(points - images, axis=1)
    sets = np.array([np.linalg.norm(point - Y, 2) for point in points])
    assert (away / sets).max() < found.ratio < found.ratio_loose


def test_the_error_without_noise_is_found_in_noisy_rows(rng: np.random.Generator) -> None:
    """By the literal matrix G, and near the error of the rows before their noise."""
    X = rng.random((300, 2)) @ rng.random((2, 40)) + 0.02 * rng.normal(size=(300, 40))
    noise = 0.05 * rng.laplace(size=X.shape)
    Y, variance = X + noise, 40 * 2 * 0.05**2
    first = smoothing_pass(Y, n_components=2)
    found = smoothing.error_without_noise(first, variance)
    hull = LiteralHull(Y, 2)
    smoother = hull.K @ hull.inverse
    G = np.eye(300) - smoother / smoother.sum(axis=1, keepdims=True)
    squares = (np.linalg.norm(G @ Y, axis=1) ** 2 - variance * (G**2).sum(axis=1)).clip(0)
    assert found == pytest.approx(np.sqrt(squares).sum(), rel=1e-6)
    clean = smoothing_pass(X, n_components=2).error
    assert abs(found - clean) < 0.2 * abs(first.error - clean)
