"""The experiments of the hull paper against their own definitions."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import AffineHullClassifier, EntryHullClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.papers import Setting, entries_of, reproduce
from sfumato.papers.data import Split, digits
from sfumato.papers.kahm import (
    PrintedAffineHullClassifier,
    federation as hulls_federated,
    private as hulls_private,
)
from sfumato.papers.kahm.federation import BY_EPSILON, BY_PARTIES, CENTRAL, EPSILONS
from sfumato.papers.kahm.plane import TABLE_11, plane_sets, seconds_to_fit, square
from sfumato.papers.kahm.private import TABLE_5, Cell, classifier, min_distances


def test_the_printed_tables_have_their_printed_means() -> None:
    # The paper prints means below its columns: with the second row (32, 20) in Table 5.
    rows = [*TABLE_5.values(), (0.9851, 0.9854, 0.06145, 0.35451)]
    assert np.mean(rows, axis=0).round(4) == pytest.approx(
        [0.9772, 0.9771, 0.0271, 0.1416], abs=1e-4
    )
    assert np.mean(CENTRAL) == pytest.approx(0.9737, abs=6e-5)
    one, two = BY_EPSILON.values()
    assert np.mean(one) == pytest.approx(0.9733, abs=6e-5)
    assert np.mean(two) == pytest.approx(0.9693, abs=6e-5)
    assert np.mean(list(BY_PARTIES.values())) == pytest.approx(0.9753, abs=6e-5)
    assert len(EPSILONS) == len(CENTRAL) == 8


def test_the_sizes_of_table_11_are_the_printed_products() -> None:
    printed = [
        1e4,
        1e5,
        3e5,
        1e6,
        2.5e6,
        3.6e6,
        4.9e6,
        5.625e6,
        6.4e6,
        7.225e6,
        8.1e6,
        9.025e6,
        1e7,
    ]
    assert [n * p for n, p in TABLE_11] == pytest.approx(printed, rel=1e-3)


def test_the_classifier_is_the_definition_asked_for() -> None:
    assert isinstance(classifier(None, device="cuda"), AffineHullClassifier)
    printed = classifier(4.0, 12, "paper", n_components=5)
    assert isinstance(printed, PrintedAffineHullClassifier)
    assert not printed.fabricate
    strict = classifier(4.0, 15, "strict")
    assert isinstance(strict, EntryHullClassifier)
    assert (strict.n_smoothing, strict.unit) == (None, "entry")
    assert (strict.hull_components, strict.n_layers, strict.delta) == (20, 5, 1e-5)


def test_least_distances_are_those_of_the_nearest_class(monkeypatch: pytest.MonkeyPatch) -> None:
    split = digits().first(300, 40)
    model = classifier(None, n_layers=1, random_state=0).fit(split.X, split.y)
    monkeypatch.setattr(hulls_private, "BLOCK", 7)
    least, nearest = min_distances(model, split.X_test)
    whole = np.asarray(model.distances(split.X_test))
    np.testing.assert_allclose(least, whole.min(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(model.classes_[nearest], model.predict(split.X_test))


def test_members_are_training_rows_and_others_are_not() -> None:
    split = digits().first(200, 50)
    cell = Cell(None, 5, 7, "none", 0)
    found = hulls_private.scored_cell(split, None, cell)
    assert (len(found.inside), len(found.outside)) == (200, 50)
    # Hulls of raw rows know their own rows.
    assert np.median(found.inside) < np.median(found.outside)
    assert 0 <= found.accuracy <= 1


def test_a_federation_takes_the_nearest_hull_of_all_parties() -> None:
    split = digits().first(400, 60)
    estimator = classifier(16.0, n_layers=1, random_state=0)
    parts = [np.arange(0, 200), np.arange(200, 400)]
    with seeded_noise(3):
        model = hulls_federated._merged(split, estimator, parts)
    with seeded_noise(3):
        alone = [classifier(16.0, n_layers=1, random_state=0) for _ in parts]
        distances = [
            one.fit(split.X[part], split.y[part]).distances(split.X_test)
            for one, part in zip(alone, parts, strict=True)
        ]
    np.testing.assert_allclose(model.distances(split.X_test), np.min(distances, axis=0), rtol=1e-6)


def test_federated_means_are_over_runs_and_known_ones_are_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[object] = []

    def accuracy(split: Split, device: str | None, cell: hulls_federated.Cell) -> float:
        seen.append(cell)
        return cell.epsilon + cell.run

    monkeypatch.setattr(hulls_federated, "_accuracy", accuracy)
    setting = Setting(quick=True, runs=3)
    places = [("random", 1, 4.0), ("random", 2, 4.0)]
    means = hulls_federated._means(setting, places)
    assert means["random", 2, 4.0, "strict"] == pytest.approx(5.0)
    assert len(seen) == 12
    hulls_federated._means(setting, [*places, ("random", 5, 4.0)])
    assert len(seen) == 18
    assert hulls_federated._means(setting, places)["random", 1, 4.0, "paper"] == pytest.approx(5.0)
    assert len(seen) == 18


@pytest.mark.parametrize("gain", [0.0, -0.01])
def test_a_full_table_is_judged_by_its_figures(
    monkeypatch: pytest.MonkeyPatch, gain: float
) -> None:
    """With the printed figures put in the place of ours Table 10 is reproduced; lower ones not."""
    printed = {1: hulls_federated.CENTRAL_16, **BY_PARTIES}

    def accuracy(split: Split, device: str | None, cell: hulls_federated.Cell) -> float:
        return printed[cell.n_parties] + gain

    monkeypatch.setattr(hulls_federated, "_accuracy", accuracy)
    monkeypatch.setattr(hulls_federated, "images", lambda _: digits())
    entry = next(each for each in entries_of("kahm") if each.name == "table-10")
    found = reproduce(entry, Setting(runs=1))
    assert found.verdict == ("reproduced" if gain == 0 else "not reproduced")


def test_rows_of_the_plane_fill_the_unit_square() -> None:
    for rows in plane_sets(seed=1).values():
        np.testing.assert_allclose(rows.min(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(rows.max(axis=0), 1.0)
    grid = square(5, margin=0.5)
    assert grid.shape == (25, 2)
    assert grid.min() == -0.5
    assert grid.max() == 1.5


def test_seconds_are_positive() -> None:
    assert seconds_to_fit(Setting(runs=2), 30, 10, 3) > 0
