"""The private linear classifier: budgets, proofs tried on small cases, refusals, paper mode."""

import math

import array_api_strict
import numpy as np
import pytest
from scipy.stats import gamma as gamma_law, kstest

from sfumato import Bounds, PrivateLinearClassifier, load, save
from sfumato.audit.testing import taint_test
from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.mechanisms import entropy, sampling
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import drawing_from, seeded
from sfumato.mechanisms.objective import GammaObjectiveMechanism
from sfumato.models.linear.budget import LinearBudget
from sfumato.models.linear.objective import LinearObjective
from sfumato.papers.feddpdr.printed import PrintedDPML, printed_budget
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import NonPrivateEvent, ObjectivePerturbationEvent, PureEvent
from sfumato.privacy.guarantee import Relation, Status
from sfumato.sums.losses import loss_named

BALL = Bounds(norm=1.0, labels=range(10))


@pytest.fixture(scope="module")
def unit_digits(digits):
    X, y = digits
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def fitted(data, **settings):
    model = PrivateLinearClassifier(bounds=BALL, **{"epsilon": 4.0, "delta": 1e-5, **settings})
    with seeded(3):
        return model.fit(*data)


# Utility ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "floor"),
    [
        ({}, 0.85),
        ({"whiten": False}, 0.75),
        ({"whiten": True, "relation": "add_or_remove_one"}, 0.9),
        ({"n_components": 20, "whiten": True}, 0.8),
        ({"algorithm": "objective"}, 0.5),
        ({"algorithm": "objective", "n_components": 20, "epsilon": 20.0}, 0.75),
        ({"algorithm": "output", "epsilon": 20.0}, 0.7),
        ({"algorithm": "objective", "delta": 0.0, "epsilon": 50.0}, 0.8),
        ({"algorithm": "output", "loss": "hinge", "epsilon": 100.0}, 0.6),
    ],
)
@pytest.mark.usefixtures("noise")
def test_digits_are_learned(unit_digits, settings, floor):
    model = fitted(unit_digits, **settings)
    assert model.score(*unit_digits) > floor
    assert model.guarantee_.epsilon <= model.epsilon


@pytest.mark.parametrize("algorithm", ["noisy-gd", "objective", "output"])
def test_without_noise_it_is_the_linear_classifier(unit_digits, algorithm):
    model = fitted(unit_digits, epsilon=math.inf, algorithm=algorithm)
    assert math.isinf(model.guarantee_.epsilon)
    assert model.score(*unit_digits) > 0.93


@pytest.mark.usefixtures("noise")
def test_accuracy_rises_with_epsilon(unit_digits):
    found = [
        np.mean([fitted(unit_digits, epsilon=e, whiten=True).score(*unit_digits)])
        for e in (0.1, 1.0, 10.0)
    ]
    assert found[0] < found[1] < found[2]


def test_probabilities_only_of_softmax(unit_digits):
    shares = fitted(unit_digits).predict_proba(unit_digits[0][:7])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert not hasattr(fitted(unit_digits, loss="huber"), "predict_proba")


def test_other_libraries_give_the_same_weights(unit_digits):
    X, y = unit_digits[0][:400], unit_digits[1][:400]
    here = fitted((X, y), whiten=True, n_steps=20)
    there = fitted((array_api_strict.asarray(X), y), whiten=True, n_steps=20)
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.intercept_, there.intercept_)
    np.testing.assert_array_equal(here.predict(X), there.predict(array_api_strict.asarray(X)))
    with pytest.raises(InvalidInputError, match="expecting 64 features"):
        there.predict(array_api_strict.asarray(X[:, :5]))


def test_saved_and_loaded(unit_digits, tmp_path):
    model = fitted(unit_digits, whiten=True, n_steps=5)
    save(model, tmp_path / "m.sfumato")
    again = load(tmp_path / "m.sfumato")
    np.testing.assert_array_equal(again.predict(unit_digits[0]), model.predict(unit_digits[0]))
    assert again.guarantee_ == model.guarantee_


# Budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_objective_noise_is_calibrated_to_the_budget(relation, share):
    budget = LinearBudget(2.0, 1e-5, relation, loss_named("softmax", 3), projection_share=share)
    mechanism = budget.objective(30)
    events = [m.event() for m in (budget.second_moment(), mechanism) if m is not None]
    spent = epsilon_spent(events, 1e-5, relation)
    assert 1.99 < spent <= 2.0
    assert mechanism.dimension == (4 if relation is Relation.REPLACE_ONE else 2)
    expected = budget.loss.log_determinant(mechanism.strong_convexity)
    assert mechanism.kappa == pytest.approx(expected)


def test_a_regulariser_too_small_for_the_budget_is_refused(unit_digits):
    with pytest.raises(InvalidInputError, match="larger one"):
        fitted(unit_digits, algorithm="objective", regularization=1e-4, epsilon=0.5)
    with pytest.raises(InvalidInputError, match="regularization"):
        fitted(unit_digits, algorithm="objective", delta=0.0, regularization=1e-4, epsilon=0.5)


def test_whitening_is_the_default_of_noisy_descent_alone(unit_digits):
    assert fitted(unit_digits, n_steps=3).projection_.shape == (64, 64)
    assert fitted(unit_digits, n_steps=3, whiten=False).projection_ is None
    assert fitted(unit_digits, algorithm="output").projection_ is None
    wide = np.zeros((20, 8193))
    assert fitted((wide, np.arange(20) % 10), n_steps=1).projection_ is None


def test_events_name_the_law(unit_digits):
    model = fitted(unit_digits, algorithm="objective")
    assert isinstance(model.guarantee_.events[0], ObjectivePerturbationEvent)
    pure = fitted(unit_digits, algorithm="objective", delta=0.0)
    assert pure.guarantee_.events == (PureEvent(4.0, "objective perturbation"),)
    assert fitted(unit_digits, whiten=True).guarantee_.events[1].count == 240


# Objective perturbation tried on small data -----------------------------------------------------

SMALL = np.array([[0.6, 0.3], [-0.5, 0.7], [0.2, -0.9]])


def exact_loss(objectives, theta, lam, log_density):
    """``log p(theta) / p'(theta)`` of the minimiser, by the change of variables."""
    parts = []
    for objective in objectives:
        linear = -(objective.gradient(theta) + lam * theta)
        hessian = numeric_hessian(objective, theta) + lam * np.eye(theta.size)
        parts.append(log_density(linear) + np.linalg.slogdet(hessian)[1])
    return parts[0] - parts[1]


def numeric_hessian(objective, theta, step=1e-6):
    columns = []
    for k in range(theta.size):
        move = np.zeros(theta.size)
        move[k] = step
        move = move.reshape(theta.shape)
        ahead, behind = objective.gradient(theta + move), objective.gradient(theta - move)
        columns.append((ahead - behind).ravel() / (2 * step))
    return np.array(columns)


@pytest.mark.parametrize("name", ["softmax", "huber"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_pure_objective_perturbation_keeps_its_epsilon(name, n_classes, rng):
    """The exact privacy loss at many minimisers, for neighbours at the edge of the ball."""
    loss = loss_named(name, n_classes)
    epsilon, lam = 1.5, 4.0  # log-determinants up to 0.7
    largest = 0.0
    for _ in range(150):
        row, other = rng.normal(size=(2, 2))
        other = -row if rng.random() < 0.5 else other
        pair = []
        labels = rng.integers(n_classes, size=4)
        for last, label in ((row, labels[2]), (other, labels[3])):
            rows = np.vstack([SMALL[:2], last / np.linalg.norm(last)])
            codes = np.array([labels[0], labels[1], label])
            pair.append(LinearObjective(loss, rows, loss.targets(codes, rows)))
        mechanism = GammaObjectiveMechanism(
            sensitivity=loss.sensitivity("replace_one"),
            kappa=loss.log_determinant(lam),
            strong_convexity=lam,
            epsilon=epsilon,
            size=math.prod(pair[0].shape),
        )
        with taped() as tape, seeded(int(rng.integers(2**31))):
            theta = mechanism.release(pair[0], ledger=None)
        assert len(tape.releases) == 1
        rate = mechanism.rate
        found = exact_loss(pair, theta, lam, lambda b, rate=rate: -rate * np.linalg.norm(b))
        assert abs(found) <= epsilon
        largest = max(largest, abs(found))
    assert largest > 0.3 * epsilon


def test_gaussian_objective_perturbation_keeps_its_delta(rng):
    """Monte Carlo of the exact delta against the stated one, at a delta that runs can show."""
    loss = loss_named("huber", 2)
    delta = 0.05
    budget = LinearBudget(0.8, delta, Relation.REPLACE_ONE, loss)
    mechanism = budget.objective(2)
    lam, s = mechanism.strong_convexity, math.sqrt(mechanism.variance())
    pair = []
    for sign in (1, -1):
        rows = np.vstack([SMALL[:2], [0.0, sign * 1.0]])
        codes = np.array([0, 1, 1])
        pair.append(LinearObjective(loss, rows, loss.targets(codes, rows)))
    slips = []
    for _ in range(400):
        theta = pair[0].minimise(rng.normal(0, s, (1, 2)), lam, 1e-9)
        found = exact_loss(pair, theta, lam, lambda b: -np.vdot(b, b) / (2 * s * s))
        slips.append(max(0.0, -math.expm1(0.8 - found)))
    assert np.mean(slips) + 4 * np.std(slips) / 20 <= delta


def test_the_hinge_gives_rows_away(rng):
    """Negative control: with a corner, minimisers sit on margins with positive probability."""
    b = rng.laplace(scale=2, size=100_000)

    def solution(x):
        return np.where(-x * b >= 1, -b, np.where(x * (x - b) <= 1, x - b, 1 / x))

    assert np.mean(solution(1.0) == 1.0) == pytest.approx((1 - math.exp(-0.5)) / 2, abs=0.01)
    assert np.mean(solution(0.5) == 1.0) == 0


@pytest.mark.parametrize("relation", list(Relation))
def test_the_minimiser_moves_by_no_more_than_output_noise_covers(relation, rng):
    loss = loss_named("softmax", 3)
    budget = LinearBudget(1.0, 1e-5, relation, loss, regularization=2.0)
    mechanism, lam, residual = budget.output(6, 4)
    assert lam == 2.0
    assert residual == budget.loss.sensitivity(relation) / 1024
    assert mechanism.sensitivity == (budget.loss.sensitivity(relation) + 2 * residual) / lam
    for _ in range(60):
        rows = rng.normal(size=(4, 2))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        codes = rng.integers(3, size=4)
        near, near_codes = rows[:3], codes[:3]
        if relation is Relation.REPLACE_ONE:
            near = np.vstack([near, -rows[3]])
            near_codes = np.append(near_codes, rng.integers(3))
        found = [
            LinearObjective(loss, r, loss.targets(c, r)).minimise(np.zeros((3, 2)), lam, 1e-10)
            for r, c in ((rows, codes), (near, near_codes))
        ]
        assert np.linalg.norm(found[0] - found[1]) <= mechanism.sensitivity


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("relation", list(Relation))
def test_what_rounding_may_do_is_public_and_paid_for(relation, delta, rng):
    """τ is a function of public numbers, above the rounding for any data, and in the noise."""
    loss = loss_named("hinge", 2)
    budget = LinearBudget(1.0, delta, relation, loss, regularization=30.0)
    rows = rng.normal(size=(300, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    objective = LinearObjective(loss, rows, loss.targets(rng.integers(2, size=300), rows))
    for n_rows in (300, 10**8):
        mechanism, lam, residual = budget.output(5, n_rows)
        far = 3 * objective.radius(0.0, lam) * np.full((1, 5), 5**-0.5)
        assert objective.gradient_error(far) <= residual / 2
        moved = (loss.sensitivity(relation) + 2 * residual) / lam
        assert mechanism.sensitivity == pytest.approx(moved)
    assert residual > loss.sensitivity(relation) / 1024
    few, many = (budget.objective(5, n).residual for n in (300, 10**8))
    assert many > few


@pytest.mark.parametrize("n_close", [0, 1, 10_000, 20_000])
def test_no_rows_make_a_fit_fail(n_close):
    """Rows with small margins want long weights, and those are rounded more: never an error."""
    signs = np.where(np.arange(20_000) % 2, 1.0, -1.0)
    X = np.zeros((20_000, 100))
    X[:, 0] = signs
    X[:n_close, 0] *= 0.05
    model = PrivateLinearClassifier(
        loss="hinge", algorithm="output", bounds=Bounds(norm=1.0, labels=[0, 1])
    )
    assert model.fit(X, (signs > 0).astype(int)).guarantee_.status is Status.PROVED


@pytest.mark.parametrize("kind", ["random", "repeated", "separated", "tiny"])
@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "output", "loss": "hinge"},
        {"algorithm": "output", "loss": "hinge", "epsilon": 50.0},
        {"algorithm": "output", "regularization": 1e-6},
        {"algorithm": "objective", "loss": "huber", "huber_width": 0.1, "epsilon": 20.0},
    ],
    ids=str,
)
def test_no_kind_of_rows_makes_a_fit_fail(kind, settings, rng):
    y = rng.integers(0, 2, 1200)
    centres = rng.normal(size=(2, 150))
    X = {
        "random": rng.normal(size=(1200, 150)),
        "repeated": np.repeat(rng.normal(size=(4, 150)), 300, axis=0),
        "separated": centres[y] + 0.05 * rng.normal(size=(1200, 150)),
        "tiny": 1e-3 * centres[y],
    }[kind]
    X /= np.linalg.norm(X, axis=1).max()
    bounds = Bounds(norm=1.0, labels=[0, 1])
    model = PrivateLinearClassifier(bounds=bounds, **{"delta": 1e-6, **settings}).fit(X, y)
    assert np.isfinite(model.coef_).all()


def test_the_number_of_rows_is_bounded_where_it_is_secret(unit_digits, monkeypatch):
    for algorithm, power in (("noisy-gd", 26), ("objective", 22), ("output", 22)):
        model = fitted(unit_digits, algorithm=algorithm, relation="add_or_remove_one", n_steps=2)
        assert f"at most 2**{power} rows" in model.guarantee_.public
        assert "number of rows" not in model.guarantee_.public
    assert not any("at most" in fact for fact in fitted(unit_digits, n_steps=2).guarantee_.public)
    monkeypatch.setattr("sfumato.models.linear.private.MAX_MINIMISED", 1024)
    fitted(unit_digits, algorithm="output")
    with pytest.raises(InvalidInputError, match="At most 1024 rows"):
        fitted(unit_digits, algorithm="output", relation="add_or_remove_one")


def test_arrays_of_other_libraries_add_a_condition(unit_digits):
    X, y = unit_digits[0][:50], unit_digits[1][:50]
    model = PrivateLinearClassifier(bounds=BALL, n_steps=2)
    assert model.fit(X, y).guarantee_.status is Status.PROVED
    promised = model.fit(array_api_strict.asarray(X), y).guarantee_
    assert promised.status is Status.CONDITIONAL
    assert "at every place" in promised.conditions[0]


def test_without_noise_delta_may_be_zero(unit_digits):
    model = fitted(unit_digits, epsilon=math.inf, delta=0.0, n_steps=20)
    assert math.isinf(model.guarantee_.epsilon)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "objective", "n_components": 5},
        {"algorithm": "objective", "delta": 0.0},
        {"algorithm": "output"},
        {"whiten": True, "n_steps": 3},
        {"relation": "add_or_remove_one", "n_steps": 3},
    ],
)
def test_nothing_after_the_releases_reads_the_rows(unit_digits, settings):
    X, y = unit_digits[0][:200], unit_digits[1][:200]
    model = PrivateLinearClassifier(bounds=BALL, **{"delta": 1e-5, **settings})
    other = slice(None) if settings.get("relation") is None else slice(5, None)
    taint_test(model, X, -0.5 * X[::-1][other], y, y[::-1][other])


def test_the_printed_machines_read_no_row_after_their_releases(unit_digits):
    X, y = unit_digits[0][:200], unit_digits[1][:200]
    taint_test(PrintedDPML(5, bounds=BALL, delta=1e-5), X, -0.5 * X[::-1], y, y[::-1])


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "hinge", "algorithm": "objective"}, "corner puts minimisers"),
        ({"delta": 0.0}, "Pure epsilon"),
        ({"delta": 0.0, "algorithm": "objective", "n_components": 3}, "Pure epsilon"),
        ({"algorithm": "sgd"}, "'algorithm' must be one of"),
        ({"loss": "square"}, "'loss' must be one of"),
        ({"max_gradient_norm": 3.0}, "'max_gradient_norm'"),
        ({"n_steps": 0}, "'n_steps'"),
        ({"n_steps": 3.5}, "'n_steps' must be an integer"),
        ({"pca_share": 0.9995, "relation": "add_or_remove_one"}, "'pca_share' must lie below"),
        ({"momentum": 1.0}, "'momentum'"),
        ({"learning_rate": -1.0}, "'learning_rate'"),
        ({"whiten": True, "pca_share": 1.5}, "'pca_share'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(unit_digits, settings, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        fitted(unit_digits, **settings)


# As printed -------------------------------------------------------------------------------------


def test_printed_budget():
    usual = printed_budget(0.05, 10_000, 0.01, 0.5)
    assert usual.epsilon == pytest.approx(0.0301, abs=1e-4)
    assert usual.extra == 0
    small = printed_budget(0.005, 10_000, 0.01, 0.5)
    assert small.epsilon == 0.0025
    assert small.extra == pytest.approx(0.0700, abs=1e-4)


def test_printed_noise_has_its_law(rng):
    """``||b|| ~ Gamma(k, 2/epsilon')``, found again from the minimiser."""
    X = rng.normal(size=(30, 4))
    bounds = Bounds(norm=1.0, labels=[0, 1])
    model = PrintedDPML(delta=0.0, bounds=bounds)
    lengths = []
    for _ in range(150):
        with taped() as tape:
            model.fit(X, np.arange(30) % 2)
        released = tape.releases[0]
        theta, objective = released.output, released.statistic.item()
        convexity = released.mechanism.strong_convexity
        lengths.append(np.linalg.norm(objective.gradient(theta) + convexity * theta))
    printed = printed_budget(1.0, 30, 0.01, 0.5)
    assert kstest(lengths, gamma_law(4, scale=2 / printed.epsilon).cdf).pvalue > 1e-6
    assert kstest(lengths, gamma_law(4, scale=1 / printed.epsilon).cdf).pvalue < 1e-6


def test_printed_with_ten_classes_states_what_it_really_costs(unit_digits):
    model = PrintedDPML(10, epsilon=1.0, delta=1e-4, bounds=BALL)
    promised = model.fit(*unit_digits).guarantee_
    assert promised.status is Status.CONDITIONAL
    assert promised.claimed_epsilon == 1.0
    assert promised.epsilon == pytest.approx(
        epsilon_spent(promised.events, 1e-4, Relation.REPLACE_ONE)
    )
    assert promised.epsilon > 3  # ten classifiers and √2 in the components
    assert len(promised.events) == 11
    assert model.score(*unit_digits) > 0.15


def test_printed_two_classes_cost_less_than_printed(rng):
    """The printed log-determinant is twice too large, so two classes keep a smaller epsilon."""
    X = rng.normal(size=(400, 3))
    bounds = Bounds(norm=1.0, labels=[0, 1])
    model = PrintedDPML(epsilon=2.0, delta=0.0, bounds=bounds).fit(X, (X[:, 0] > 0).astype(int))
    assert model.guarantee_.epsilon < 2.0


def test_the_printed_sensitivity_is_wrong_for_a_replaced_row():
    """Negative control: orthonormal rows move the second moment by √2, not by 1."""
    one, two = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert np.linalg.norm(one.T @ one - two.T @ two) == pytest.approx(math.sqrt(2))


def test_status_is_read_off_the_bounds_and_not_off_the_rows(unit_digits):
    """Rows inside the ball under bounds that allow longer ones: refuted all the same."""
    X, y = unit_digits
    model = PrintedDPML(delta=0.0, bounds=Bounds(norm=2.0, labels=range(10)))
    with pytest.warns(RefutedGuaranteeWarning):
        model.fit(X * 0.01, y)
    assert model.guarantee_.status is Status.REFUTED
    assert model.guarantee_.epsilon is None
    assert model.guarantee_.claimed_epsilon == 1.0
    assert NonPrivateEvent() in model.guarantee_.events
    inside = Bounds(lower=-0.125, upper=0.125, labels=range(10))  # 64 features: radius 1
    boxed = PrintedDPML(delta=0.0, bounds=inside)
    assert boxed.fit(100 * X, y).guarantee_.status is Status.CONDITIONAL


@pytest.mark.parametrize(
    "settings", [{"epsilon": math.inf}, {"pca_share": 1.5}, {"n_components": 3, "delta": 0.0}]
)
def test_dpml_is_refused_where_it_is_not_printed(unit_digits, settings):
    with pytest.raises(InvalidInputError):
        PrintedDPML(bounds=BALL, **settings).fit(*unit_digits)


def test_noise_drawn_ahead_is_that_of_all_releases(monkeypatch, rng):
    """On an accelerator: here rows of another library of the processor are taken for such."""
    X = rng.normal(size=(300, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.arange(300) % 3
    for room in ("private", "fit"):
        monkeypatch.setattr(f"sfumato.models.linear.{room}.is_accelerated", lambda device: True)
    monkeypatch.setattr(sampling, "FEW_AHEAD", 8)
    handed_out = []
    take = sampling._NoiseQueue.next

    def counted(waiting, *key):
        handed_out.append(take(waiting, *key))
        return handed_out[-1]

    monkeypatch.setattr(sampling._NoiseQueue, "next", counted)
    with drawing_from(entropy._system_words):
        model = PrivateLinearClassifier(
            epsilon=1.0, delta=1e-5, n_steps=20, bounds=Bounds(norm=1.0, labels=range(3))
        ).fit(array_api_strict.asarray(X), y)
    assert len(handed_out) == 22
    assert len({each.tobytes() for each in handed_out}) == 22
    assert [each.size for each in handed_out[:2]] == [16 * 15 // 2, 16]  # of the second moment
    assert handed_out[2].size == model.coef_.size + len(model.intercept_) * model._has_constant
    assert isinstance(model.projection_, np.ndarray)


def test_a_moment_that_stays_where_the_rows_are_gives_the_same_model(monkeypatch, rng):
    X = rng.normal(size=(300, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.arange(300) % 3
    bounds = Bounds(norm=1.0, labels=range(3))
    models = []
    for stays in (False, True):
        monkeypatch.setattr(
            "sfumato.models.linear.fit.is_accelerated", lambda device, stays=stays: stays
        )
        with seeded(1):
            model = PrivateLinearClassifier(epsilon=1.0, delta=1e-5, n_steps=20, bounds=bounds)
            models.append(model.fit(array_api_strict.asarray(X), y))
    here, there = (model.projection_ @ model.projection_.T for model in models)
    np.testing.assert_allclose(here, there, atol=1e-9)  # up to the signs of eigenvectors
    scores = [model.decision_function(X[:50]) for model in models]
    assert np.abs(scores[0]).max() > 0.01
