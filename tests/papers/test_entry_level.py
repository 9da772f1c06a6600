"""The papers' systems at entry level, mended: scaling, oracles, promises, and what must be seen."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.datasets import load_digits

from sfumato import Bounds, EntryHullClassifier
from sfumato.audit.testing import PrivateCase, check_private_estimator, contracts, taint_test
from sfumato.audit.testing.inspection import holds_a_row, leaves
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.papers.cdmma import MembershipTransferClassifier
from sfumato.papers.entry_level import EntryScale
from sfumato.papers.kahm import EntryFabricator, PrintedAffineHullClassifier
from sfumato.papers.kahm.smoothing import fabricate_groups
from sfumato.papers.kahm.systems import plan_branches
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Status
from tests.models.literal_hulls import LiteralDeepHull

BOX = Bounds(lower=(-1.0, 0.0, 10.0), upper=(1.0, 100.0, 10.5))
CUBE = Bounds(lower=0.0, upper=1.0, labels=range(3))
Data = tuple[np.ndarray, np.ndarray]
refuted = pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")


@pytest.fixture(scope="module")
def three() -> Data:
    X, y = load_digits(return_X_y=True)
    return X[y < 3][:300] / 16, y[y < 3][:300]


def hulls(kind: Any = EntryHullClassifier, **parameters: Any) -> Any:
    defaults = {"n_layers": 2, "delta": 1e-5, "bounds": CUBE, "random_state": 0}
    return kind(5, **(defaults | parameters))


def rows(kind: Any = EntryFabricator, **parameters: Any) -> Any:
    defaults = {"epsilon": 8.0, "delta": 1e-5, "bounds": CUBE, "random_state": 0}
    return kind(5, **(defaults | parameters))


def transfer(**parameters: Any) -> MembershipTransferClassifier:
    defaults = {"schedule": (2,), "n_layers": 1, "delta": 0.0, "bounds": CUBE, "random_state": 0}
    return MembershipTransferClassifier(**(defaults | parameters))


# Scaling -----------------------------------------------------------------------------------------


def test_a_bad_entry_moves_no_other() -> None:
    X = np.array([[0.5, 30.0, 10.1]])
    scale = EntryScale(BOX, 3, None)
    good = scale(X)
    for bad, becomes in ((np.nan, 0.5), (np.inf, 1.0), (-np.inf, 0.0), (1e308, 1.0)):
        X[0, 1] = bad
        found = scale(X)
        assert found[0, 1] == becomes
        np.testing.assert_array_equal(found[0, [0, 2]], good[0, [0, 2]])


@given(*(st.floats(*ends) for ends in [(-5, 5), (-3, 3), (1e-12, 3), (-2, 0), (0.1, 3), (1, 1e6)]))
def test_entries_with_noise_move_by_no_more_than_the_bound(
    x: float, step: float, d: float, lower: float, width: float, wider: float
) -> None:
    """In a narrow and in a wide column; a hair wide for the rounding that the mechanism pays."""
    upper = [lower + width, lower + width * wider]
    scale = EntryScale(Bounds(lower=[lower] * 2, upper=upper), 2, d)
    other = x + max(-d, min(d, step))
    change = abs(float(Fraction(x) - Fraction(other)))
    here, there = (scale(np.full((1, 2), v)) * scale.units for v in (x, other))
    allowed = change + scale.rounding
    stretched = scale.units > np.subtract(upper, lower)  # narrower than d: any move is one of d
    assert np.all(np.abs(here - there) <= np.where(stretched, d, allowed) * (1 + 1e-15))


def test_branches_grow_with_the_noise() -> None:
    sizes = [plan_branches(2 / epsilon**2, 784)[0] for epsilon in (16, 4, 2, 1.5, 1)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (1000, 6000)
    assert plan_branches(0.01, 784)[1] == "kmeans"
    assert plan_branches(np.inf, 784, largest=3000) == (3000, "random")


# Oracles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [0, 1])
def test_hulls_are_of_noisy_or_of_smoothed_rows(three: Data, passes: int) -> None:
    X, y = three
    with seeded(3), taped() as tape:
        model = hulls(epsilon=8.0, n_smoothing=passes).fit(X, y)
    (release,) = tape.releases
    noisy = np.asarray(release.output)
    expected = []
    for label in range(3):
        members = noisy[y == label]
        image = LiteralDeepHull(members, 5, 1).layers[0].image(members) if passes else members
        expected.append(LiteralDeepHull(image, 5, 2).distance(X[:40]))
    np.testing.assert_allclose(model.distances(X[:40]), np.stack(expected, axis=1), rtol=1e-3)


def test_fabricated_rows_are_the_smoothed_noisy_rows(three: Data) -> None:
    X, y = three
    with seeded(5), taped() as tape:
        made, labels = rows(epsilon=4.0, branch_size=500, n_smoothing=2).fit(X, y).fabricate()
    noisy = np.asarray(tape.releases[0].output)
    np.testing.assert_array_equal(labels, y)
    for label in range(3):
        ((expected, _),) = fabricate_groups([noisy[y == label]], n_components=5, passes=2)
        np.testing.assert_allclose(made[y == label], expected.clip(0, 1), atol=1e-4)
    assert set(rows(epsilon=4.0).fit(X, y).n_smoothing_) <= {2, 3, 4}  # by default
    assert np.linalg.norm(made - X) < 0.75 * np.linalg.norm(noisy.clip(0, 1) - X)


# Promises ----------------------------------------------------------------------------------------

SYSTEMS = {
    "hulls": lambda **more: hulls(epsilon=4.0, **more),
    "hulls in branches": lambda **more: hulls(epsilon=4.0, branch_size=40, n_smoothing=0, **more),
    "Definition 12": lambda **more: hulls(
        PrintedAffineHullClassifier, fabricate=False, branch_size=40, **{"delta": 0.0, **more}
    ),
    "rows": rows,
    "transfer": transfer,
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_nothing_reads_the_rows_after_the_release(
    name: str, three: Data, rng: np.random.Generator
) -> None:
    X, y = three
    taint_test(SYSTEMS[name](), X, rng.random(X.shape), y)
    model = SYSTEMS[name]().fit(X, y)
    assert not any(holds_a_row(value, X) for _, value in leaves(model))


@pytest.mark.parametrize(("name", "entry_bound"), [("rows", 0.25), ("transfer", None)])
def test_the_contract_of_private_estimators(
    name: str, entry_bound: float | None, three: Data
) -> None:
    check_private_estimator(SYSTEMS[name](entry_bound=entry_bound), *three)


def test_guarantee_of_one_entry_tells_the_whole_record(three: Data) -> None:
    for make in SYSTEMS.values():
        one = make(entry_bound=0.25).set_params(epsilon=0.5).fit(*three).guarantee_
        assert one.status is Status.PROVED
        assert (one.epsilon, one.delta, one.entry_bound, one.whole_range) == (0.5, 0, 0.25, False)
        assert one.record_reading.pure_epsilon == 32.0
        assert "labels of the rows" in one.public


# As printed --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{}, {"branch_size": 40, "fabricate": False, "raw_clusters": True}]
)
@refuted
def test_the_printed_algorithms_read_the_rows(
    three: Data, rng: np.random.Generator, given: dict[str, Any]
) -> None:
    """The negative control: threshold and partition come from raw rows."""
    X, y = three
    model = hulls(PrintedAffineHullClassifier, epsilon=4.0, **given)
    assert NonPrivateEvent() in model.fit(X, y).guarantee_.events  # so that no budget pays for it
    with pytest.raises(AssertionError, match="depends on the rows"):
        taint_test(model, X, 0.5 + 0.001 * rng.random(X.shape), y)


def test_definition_12_is_the_hull_of_noisy_rows_as_they_are(three: Data) -> None:
    """In units of the data: clusters of noisy rows, no rescaling; the promise has the atom."""
    X, y = 2 * three[0] - 1, three[1]
    box = Bounds(lower=-1.0, upper=1.0, labels=range(3))
    model = hulls(PrintedAffineHullClassifier, bounds=box, fabricate=False, epsilon=8.0)
    with taped() as tape:
        model.fit(X, y)
    noisy = np.asarray(tape.releases[0].output)
    expected = [LiteralDeepHull(noisy[y == c], 5, 2).distance(X[:40]) for c in range(3)]
    np.testing.assert_allclose(model.distances(X[:40]), np.stack(expected, axis=1), rtol=1e-6)
    assert np.std(noisy - X) == pytest.approx(2 * np.sqrt(2) / 8, rel=0.05)  # d = 2
    stated = model.fit(X, y).guarantee_
    assert (stated.status, stated.epsilon, stated.delta) == (Status.PROVED, 8.0, 1e-5)
    assert "NO PRIVACY" not in repr(model)


@refuted
def test_definition_15_clusters_the_fabricated_rows_again(
    three: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = three
    seen, cut = [], PrintedAffineHullClassifier._cut

    def noting(self: Any, rows: np.ndarray, *rest: Any) -> Any:
        seen.append(rows)
        return cut(self, rows, *rest)

    monkeypatch.setattr(PrintedAffineHullClassifier, "_cut", noting)
    model = hulls(PrintedAffineHullClassifier, epsilon=8.0, branch_size=40).fit(X, y)
    np.testing.assert_array_equal(seen[0], X)
    assert len(seen) == 2
    assert seen[1].shape == X.shape
    assert not np.array_equal(seen[1], X)
    assert sum(len(h.branches_) for h in model.classifier_.hulls_) >= 3


# Faults that the contracts must see --------------------------------------------------------------

HONEST = EntryScale.__call__


def mixes_entries(scale: EntryScale, X: np.ndarray) -> np.ndarray:
    """Scale each row by its length: an entry moves its neighbours."""
    finite = np.nan_to_num(X, posinf=1e100, neginf=-1e100)  # the contract plants infinite entries
    return HONEST(scale, finite / np.maximum(np.linalg.norm(finite, axis=1, keepdims=True), 1))


def stretches_entries(scale: EntryScale, X: np.ndarray) -> np.ndarray:
    return 1.5 * HONEST(scale, X)


def squeezes_entries(scale: EntryScale, X: np.ndarray) -> np.ndarray:
    return 0.5 * HONEST(scale, X)


@pytest.mark.parametrize("entry_bound", [None, 0.5])
@pytest.mark.parametrize("fault", [mixes_entries, stretches_entries, squeezes_entries])
def test_an_entry_that_moves_too_much_is_caught(
    fault: Any, entry_bound: float | None, three: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = three[0][:40, 10:16], three[1][:40]
    case = PrivateCase(rows(entry_bound=entry_bound, epsilon=1.0), X, y)
    contracts.check_sensitivity(case)
    monkeypatch.setattr(EntryScale, "__call__", fault)
    with pytest.raises(AssertionError, match="sensitivity"):
        contracts.check_sensitivity(case)
