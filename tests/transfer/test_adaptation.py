"""Bringing the source's Gaussians to the target: shifted, rotated, and noisy."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.transfer_target import (
    Rounds,
    adapted,
    aligned,
    aligned_scores,
    coordinates_of,
    left_out_accuracy,
    log_joint,
    nearest_mean_scores,
)
from sfumato.papers.cdmma.entries import from_noisy_rows
from sfumato.papers.cdmma.printed import first_errors

N_CLASSES, WIDTH = 4, 6


def mixture(rng: np.random.Generator, n_rows: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Elongated classes: nearest means do badly, Gaussians do well."""
    shape = np.random.default_rng(7)
    means = 2.0 * shape.normal(size=(N_CLASSES, WIDTH))
    factors = shape.normal(size=(N_CLASSES, WIDTH, WIDTH)) * np.linspace(0.2, 1.2, WIDTH)
    codes = rng.integers(N_CLASSES, size=n_rows)
    spread = rng.normal(size=(n_rows, WIDTH))
    return means[codes] + np.einsum("ij,ijk->ik", spread, factors[codes]), codes


def known_rows(codes: np.ndarray, per_class: int) -> np.ndarray:
    known = np.zeros((len(codes), N_CLASSES))
    for code in range(N_CLASSES):
        known[np.nonzero(codes == code)[0][:per_class], code] = 1
    return known


def test_gaussians_of_rows_without_noise_are_the_moments(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng)
    source = from_noisy_rows(rows, codes, N_CLASSES, WIDTH, np.full(rows.shape[1], 0.0))
    back = source["means"] @ source["basis"].T * source["radius"] + source["centre"]
    np.testing.assert_allclose(
        back, [rows[codes == c].mean(axis=0) for c in range(N_CLASSES)], atol=1e-9
    )
    u = coordinates_of(source, rows)
    assert np.mean(np.sum(u**2, axis=1)) == pytest.approx(1.0)
    assert np.mean(log_joint(source, u).argmax(axis=1) == codes) > 0.9


def test_the_variance_of_the_noise_is_taken_off(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng, 20_000)
    clean = from_noisy_rows(rows, codes, N_CLASSES, WIDTH, np.full(rows.shape[1], 0.0))
    noisy_rows = rows + rng.laplace(scale=0.5, size=rows.shape)
    noisy = from_noisy_rows(noisy_rows, codes, N_CLASSES, WIDTH, np.full(rows.shape[1], 2 * 0.5**2))
    assert noisy["radius"] == pytest.approx(float(clean["radius"]), rel=0.02)
    ignored = from_noisy_rows(noisy_rows, codes, N_CLASSES, WIDTH, np.full(rows.shape[1], 0.0))
    assert ignored["radius"] > 1.01 * noisy["radius"]


def test_drowned_rows_keep_their_class_means(rng: np.random.Generator) -> None:
    rows = np.pad(mixture(rng, 8000)[0], ((0, 0), (0, 60)))
    codes = mixture(np.random.default_rng(42), 8000)[1]
    rows[:, :4] += 6 * np.eye(4)[codes]
    noise = rng.laplace(scale=10.0, size=rows.shape)
    source = from_noisy_rows(rows + noise, codes, N_CLASSES, 20, np.full(rows.shape[1], 200.0))
    assert source["basis"].shape[1] <= 20 + N_CLASSES
    values = np.linalg.eigvalsh(source["covariances"])
    assert np.all(values > 0)
    scores = log_joint(source, coordinates_of(source, rows))
    assert np.mean(scores.argmax(axis=1) == codes) > 0.6


def test_moved_gaussians_follow_a_shift(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng)
    source = from_noisy_rows(rows, codes, N_CLASSES, WIDTH, np.full(rows.shape[1], 0.0))
    target, labels = mixture(rng)
    target = target + 1.2 * np.random.default_rng(3).normal(size=(N_CLASSES, WIDTH))[labels]
    u = coordinates_of(source, target)
    before = np.mean(log_joint(source, u).argmax(axis=1) == labels)
    nobody = np.zeros((len(u), N_CLASSES))
    moved = adapted(u, log_joint(source, u), nobody, source["covariances"])
    after = np.mean(log_joint(moved, u).argmax(axis=1) == labels)
    assert after > before + 0.02
    assert after > 0.85


def test_labelled_rows_are_never_relabelled_by_the_start(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng)
    known = known_rows(codes, 2)
    found = adapted(rows, nearest_mean_scores(rows, known), known)
    assert found["counts"].sum() == pytest.approx(len(rows) + 4 * N_CLASSES * 2)
    assert np.all(np.linalg.eigvalsh(found["covariances"]) > 0)


def test_a_rotated_target_is_aligned_by_the_shape_of_the_means(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng)
    source = from_noisy_rows(rows, codes, N_CLASSES, WIDTH, np.full(rows.shape[1], 0.0))
    target, labels = mixture(rng)
    rotation = np.linalg.qr(rng.normal(size=(9, WIDTH)))[0].T  # into nine dimensions
    points = (target - target.mean(axis=0)) @ rotation
    known = known_rows(labels, 1)
    found = aligned(source, points, known)
    alone = nearest_mean_scores(points, known)
    rest = ~known.any(axis=1)
    right = np.mean(aligned_scores(found, points)[rest].argmax(axis=1) == labels[rest])
    assert right >= np.mean(alone[rest].argmax(axis=1) == labels[rest])
    assert right > 0.85


def rounds(cross_fit: bool) -> Rounds:
    parameters = {"n_layers": 1, "inducing_ratio": 0.5, "center": True}
    return Rounds((2, 4), cross_fit, WIDTH, parameters, np.random.RandomState(0))


@pytest.mark.parametrize("cross_fit", [True, False])
def test_rounds_keep_labels_and_mend_pseudo_labels(
    cross_fit: bool, rng: np.random.Generator
) -> None:
    rows, codes = mixture(rng, 400)
    labelled = known_rows(codes, 3).any(axis=1)
    start = np.where(rng.random(400) < 0.7, codes, rng.integers(N_CLASSES, size=400))
    start[labelled] = codes[labelled]
    found = rounds(cross_fit).run(rows, start, labelled)
    np.testing.assert_array_equal(found[labelled], codes[labelled])
    assert np.mean(found == codes) > np.mean(start == codes)


def test_a_cross_fitted_label_does_not_see_its_own_row(rng: np.random.Generator) -> None:
    """A label of one row, which the printed update tends to confirm, cannot confirm itself."""
    rows, codes = rng.normal(size=(80, WIDTH)), rng.integers(N_CLASSES, size=80)
    labelled = known_rows(codes, 3).any(axis=1)
    moved = {True: 0, False: 0}
    for cross_fit in (True, False):
        parameters = {"n_layers": 1, "inducing_ratio": 1.0, "kappa": 1e-3}
        for row in np.nonzero(~labelled)[0][:20]:
            other = codes.copy()
            other[row] = (codes[row] + 1) % N_CLASSES
            found = []
            for each in (codes, other):
                start = np.random.RandomState(0)
                once = Rounds((WIDTH,), cross_fit, WIDTH, parameters, start)
                found.append(once.run(rows, each, labelled)[row])
            moved[cross_fit] += found[0] != found[1]
    assert moved[True] == 0
    assert moved[False] >= 5


def test_first_errors_use_every_labelled_row(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng, 200)
    one = known_rows(codes, 1).any(axis=1)
    errors = first_errors(rounds(True), rows, codes, one)
    away = np.sum((rows[:, None] - rows[one][np.argsort(codes[one])][None]) ** 2, axis=2)
    np.testing.assert_allclose(errors, away, rtol=1e-9)  # one row: its class is that row


def test_left_out_accuracy_by_hand(rng: np.random.Generator) -> None:
    rows, codes = mixture(rng, 60)
    known = known_rows(codes, 3)
    labelled = np.nonzero(known.any(axis=1))[0]
    right = []
    for row in labelled:
        others = [i for i in labelled if i != row]
        means = [
            np.mean([rows[i] for i in others if codes[i] == code], axis=0)
            for code in range(N_CLASSES)
        ]
        away = [np.sum((rows[row] - mean) ** 2) for mean in means]
        right.append(int(np.argmin(away)) == codes[row])
    assert left_out_accuracy(rows, known) == pytest.approx(np.mean(right))
    assert left_out_accuracy(rows, known_rows(codes, 1)) == 0.0
