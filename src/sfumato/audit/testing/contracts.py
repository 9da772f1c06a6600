"""The contracts of a private estimator, one function each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import gamma, kstest, laplace, norm
from sklearn.base import clone

from sfumato.audit.testing.case import Oracle, PrivateCase, fit, neighbours, rows_of_a_person
from sfumato.audit.testing.inspection import holds_a_row, leaves, saved_bytes, unpacked
from sfumato.audit.testing.outcome import outcome_of
from sfumato.audit.testing.taint import compare_replays, require
from sfumato.exceptions import BudgetExceededError, MissingBoundsError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    QuantileMechanism,
)
from sfumato.mechanisms.base import Released, Tape, taped
from sfumato.mechanisms.entropy import Words, drawing_from, seeded
from sfumato.mechanisms.exponential import ColumnPairsMechanism
from sfumato.mechanisms.objective import GammaObjectiveMechanism, ObjectiveMechanism
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import Event, flatten
from sfumato.privacy.guarantee import Relation, Status, Unit

FALSE_ALARM = 1e-6  # chance that a right noise law is called wrong
SCORES = 1200  # noise values a release shows; 2/3 or 3/2 of the scale pass once in 10^6
MAX_FITS = 500


def check_private_estimator(
    estimator: Any,
    X: np.ndarray,
    y: np.ndarray | None = None,
    *,
    oracle: Oracle | None = None,
    rows_at_bound: np.ndarray | None = None,
) -> None:
    """Run every contract on an estimator; see `PrivateCase` for the arguments.

    Parameters
    ----------
    estimator : object
        The estimator, with its bounds and budget.
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of shape (n_samples,), optional
        Labels.
    oracle : callable, optional
        See `PrivateCase`.
    rows_at_bound : ndarray, optional
        See `PrivateCase`.
    """
    case = PrivateCase(estimator, X, y, oracle, rows_at_bound)
    for check in PRIVATE_CHECKS:
        check(case)


def check_bounds_are_required(case: PrivateCase) -> None:
    """Without bounds, `fit` raises instead of learning them."""
    try:
        case.fitted(bounds=None)
    except MissingBoundsError:
        return
    raise AssertionError("fit without bounds must raise MissingBoundsError.")


def check_no_raw_row_survives(case: PrivateCase) -> None:
    """No row of X stands in the fitted object or in its saved file."""
    model = case.fitted()
    for path, value in leaves(model):
        require(not holds_a_row(value, case.X), f"{path} holds a raw row.")
    content = unpacked(saved_bytes(model))
    require(not holds_a_row(content, case.X), "The saved file contains a raw row.")


def check_constructor_arguments_are_untouched(case: PrivateCase) -> None:
    """`fit` writes no constructor argument."""
    model = clone(case.estimator)
    before = model.get_params(deep=False)
    fit(model, case.X, case.y)
    after = model.get_params(deep=False)
    for name, value in before.items():
        require(after[name] is value, f"fit changed the constructor argument {name!r}.")


def check_taint(case: PrivateCase) -> None:
    """Everything after the releases is post-processing; see `taint_test` for what is compared.

    Tried on other rows, on other rows of another element type and memory order with a column of one
    number and two equal columns, on other rows as objects with a missing cell and a missing label,
    and on rows that are missing, infinite, far outside of the bounds or all the same, with one
    label for all: none of this is public.
    """
    compare_replays(case.estimator, (case.X, case.y), _other_data(case))


def _other_data(case: PrivateCase) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    X, y = _scrambled(case)
    yield X, y
    yield np.asfortranarray(_with_equal_numbers(X), dtype=np.float32), y
    yield _odd(case, X), y if case.estimator.unit == Unit.ENTRY else _one_label(y)
    cells = X.astype(object)
    cells[0, 0] = None
    if y is None or case.estimator.unit == Unit.ENTRY:  # where labels are public
        yield cells, y
        return
    labels = y.astype(object)
    labels[0] = None
    yield cells, labels


def _with_equal_numbers(X: np.ndarray) -> np.ndarray:
    """A first column of one number, and the last two columns equal: what is constant is secret."""
    rows = X.copy()
    rows[:, -2:] = rows[:, -1:]
    rows[:, 0] = rows[0, 0]
    return rows


def _odd(case: PrivateCase, X: np.ndarray) -> np.ndarray:
    """Rows that are all the same, but for a few that no bounds admit."""
    rows = np.tile(X[:1], (len(X), 1))
    centre, radius = case.estimator.array_bounds.ball(X.shape[1])
    rows[1], rows[2], rows[3], rows[4] = np.nan, np.inf, 1e308, centre + 10 * (1 + radius)
    return rows


def _one_label(y: np.ndarray | None) -> np.ndarray | None:
    return None if y is None else np.full_like(y, y[0])


def _scrambled(case: PrivateCase) -> tuple[np.ndarray, np.ndarray | None]:
    centre = case.estimator.array_bounds.ball(case.X.shape[1])[0]
    other = centre - 0.5 * (np.flip(case.X, axis=1) - centre)
    y_other = None if case.y is None else np.roll(case.y, 1)
    if case.estimator.unit == Unit.ENTRY:  # where labels are public and may be read at any time
        y_other = case.y
    if Relation(case.estimator.relation) is Relation.ADD_OR_REMOVE_ONE:  # their number is secret
        other, y_other = other[7:], None if y_other is None else y_other[7:]
    elif rows_of_a_person(case.estimator) > 1:  # that of rows is secret, that of persons is not
        other, y_other = other[1:], None if y_other is None else y_other[1:]
    return other, y_other


def check_sensitivity(case: PrivateCase) -> None:
    """One changed row moves no statistic by more than its sensitivity; some pair by 90 % of it."""
    with seeded(0), taped() as tape:
        case.fitted(epsilon=1e6)
    largest = np.zeros(len(tape.releases))
    found: dict[bytes, list[Released]] = {}  # each data set stands in many pairs

    def statistics(X: np.ndarray, y: np.ndarray | None) -> list[Released]:
        key = X.tobytes() + (b"" if y is None else y.tobytes())
        if key not in found:
            found[key] = _statistics(case, tape, X, y)
        return found[key]

    for data, near in neighbours(case):
        here, there = statistics(*data), statistics(*near)
        moved = [moved_share(a, b) for a, b in zip(here, there, strict=True)]
        worst = int(np.argmax(moved))
        require(
            moved[worst] <= 1 + 1e-9,
            f"Release {worst} moves by {moved[worst]:.4f} of its sensitivity.",
        )
        largest = np.maximum(largest, moved)
    require(
        bool(np.all(largest >= 0.9)),
        f"No pair attains 90 % of the sensitivity; largest shares {largest.round(3)}.",
    )


def _statistics(
    case: PrivateCase, tape: Tape, X: np.ndarray, y: np.ndarray | None
) -> list[Released]:
    """Exact statistics on other data, with the released values of `tape` held fixed."""
    with taped(playback=tape) as replay:
        fit(clone(case.estimator).set_params(epsilon=1e6), X, y)
    return replay.releases


def check_noise_law(case: PrivateCase) -> None:
    """The noise has the stated law: its scale is accepted, 2/3 and 3/2 of it are rejected."""
    runs: list[list[Released]] = []
    found: dict[int, int] = {}  # noise values that each release has shown, as far as it shows any
    while len(runs) < MAX_FITS and not (runs and all(n >= SCORES for n in found.values())):
        with taped() as tape:
            case.fitted()
        runs.append(tape.releases)
        for number, released in enumerate(tape.releases):
            if size := uniform_scores(released).size:
                found[number] = found.get(number, 0) + size
    for number, releases in enumerate(zip(*runs, strict=True)):
        for factor in (1.0, 2 / 3, 3 / 2):
            scores = np.concatenate([uniform_scores(r, factor)[:SCORES] for r in releases])
            if not scores.size:  # a choice or an answer, not a sum: its own tests have its law
                continue
            # Distances from the middle show a wrong scale best, the scores a wrong centre.
            shown = (scores, np.abs(2 * scores - 1))
            p_value = 2 * min(float(kstest(each, "uniform").pvalue) for each in shown)
            require(
                (p_value > FALSE_ALARM) is (factor == 1.0),
                f"Release {number}: {factor:.2f} of the stated scale has p = {p_value:.1e} for "
                f"{scores.size} draws.",
            )


def check_guarantee_covers_the_releases(case: PrivateCase) -> None:
    """What was charged, what was drawn and what is promised are the same events."""
    ledger = _WatchedLedger()
    with taped() as tape:
        model = case.fitted(ledger=ledger)
    drawn = flatten(released.mechanism.event() for released in tape.releases)
    promised = model.guarantee_
    require(drawn == flatten(ledger.events), "Releases were drawn that the ledger did not see.")
    require(drawn == flatten(promised.events), "The guarantee does not list what was released.")
    asked = (str(case.estimator.unit), str(case.estimator.relation))
    require(ledger.words == {asked}, "The charge must state the unit and the relation.")
    require(
        (str(promised.unit), str(promised.relation)) == asked,
        "The guarantee states another unit or relation than was asked for.",
    )
    cost = epsilon_spent(promised.events, promised.delta, promised.relation)
    require(
        promised.epsilon is None or promised.epsilon >= cost * (1 - 1e-9),
        f"The guarantee states epsilon {promised.epsilon}, its releases cost {cost}.",
    )
    require(
        promised.delta <= case.estimator.delta and cost <= case.estimator.epsilon,
        "The fit costs more than its parameters allow.",
    )


def check_charged_before_the_draw(case: PrivateCase) -> None:
    """A refused charge draws nothing; an accepted one stands even if the draw fails."""
    outcome = _fit_watched(case, refusing := _WatchedLedger(refuses=True))
    require(
        isinstance(outcome, BudgetExceededError) and refusing.happened == ["refused"],
        "A refused charge must stop fit before any noise is drawn.",
    )
    outcome = _fit_watched(case, failing := _WatchedLedger())
    require(
        isinstance(outcome, _DrawError) and failing.happened[0] == "charged",
        "The ledger must be charged before noise is drawn.",
    )


def _fit_watched(case: PrivateCase, ledger: _WatchedLedger) -> Exception | None:
    try:
        with drawing_from(ledger.draw):
            case.fitted(ledger=ledger)
    except (BudgetExceededError, _DrawError) as error:
        return error
    return None


class _DrawError(Exception):
    pass


@dataclass
class _WatchedLedger:
    """Notes charges and draws in order; a draw from it fails."""

    refuses: bool = False
    happened: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    words: set[tuple[str, str]] = field(default_factory=set)

    def __deepcopy__(self, memo: object) -> _WatchedLedger:
        return self

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        self.happened.append("refused" if self.refuses else "charged")
        if self.refuses:
            raise BudgetExceededError("refused by the test", spent=1.0, asked=1.0, left=0.0)
        self.events += events
        self.words.add((str(unit), str(relation)))
        return Receipt(events, unit=unit, relation=relation)

    def draw(self, count: int) -> Words:
        self.happened.append(f"drew {count} words")
        raise _DrawError


def check_seeded_noise_is_marked(case: PrivateCase) -> None:
    """A model whose noise was seeded does not pass for a private one."""
    with seeded(1):
        model = case.fitted()
    require(
        model.guarantee_.status is Status.TESTING and not model.guarantee_.is_private,
        "Seeded noise must give status 'testing'.",
    )


def check_infinite_epsilon(case: PrivateCase) -> None:
    """Infinite epsilon says so, and equals the non-private oracle where one is given."""
    model = case.fitted(epsilon=np.inf)
    require(bool(np.isinf(model.guarantee_.epsilon)), "Infinite epsilon must be stated as such.")
    if case.oracle is not None:
        case.oracle(model, case.X, case.y)


def check_bad_rows_do_not_raise(case: PrivateCase) -> None:
    """A row with missing, infinite or enormous numbers cannot make `fit` raise, warn or speak."""
    usual = outcome_of(case.fitted).said()
    for value in (np.nan, np.inf, -np.inf, 1e308):
        X = case.X.copy()
        X[0] = value
        outcome = outcome_of(fit, clone(case.estimator), X, case.y)
        if outcome.error is not None:
            raise outcome.error
        require(outcome.said() == usual, f"A row of {value} changes what fit says.")


def check_errors_tell_nothing(case: PrivateCase) -> None:
    """What `fit` says of data that it refuses does not depend on their values."""
    here, there = (case.X, case.y), _scrambled(case)
    for what, damaged in DAMAGES.items():
        first = outcome_of(fit, clone(case.estimator), *damaged(*here)).said()
        second = outcome_of(fit, clone(case.estimator), *damaged(*there)).said()
        for way, words in first.items():
            require(
                words == second[way],
                f"The {way} of fit on {what} depends on the rows: {words!r} and {second[way]!r}.",
            )


def _with_words(X: np.ndarray, y: Any) -> tuple[Any, Any]:
    return np.array([[f"word {cell}" for cell in row] for row in X], dtype=object), y


def _with_lists(X: np.ndarray, y: Any) -> tuple[Any, Any]:
    return [[list(row[:1]), *row[1:]] for row in X], y


DAMAGES: dict[str, Callable[[np.ndarray, Any], tuple[Any, Any]]] = {
    "a single row": lambda X, y: (X[0], y),
    "a stack of tables": lambda X, y: (X[None], y),
    "cells of text": _with_words,
    "cells that are lists": _with_lists,
    "complex numbers": lambda X, y: (X * 1j, y),
    "rows without labels": lambda X, y: (X, None if y is None else y[:-1]),
    "labels in two columns": lambda X, y: (X, None if y is None else np.stack([y, y], axis=1)),
}


PRIVATE_CHECKS: tuple[Callable[[PrivateCase], None], ...] = (
    check_bounds_are_required,
    check_no_raw_row_survives,
    check_constructor_arguments_are_untouched,
    check_taint,
    check_sensitivity,
    check_noise_law,
    check_guarantee_covers_the_releases,
    check_charged_before_the_draw,
    check_seeded_noise_is_marked,
    check_infinite_epsilon,
    check_bad_rows_do_not_raise,
    check_errors_tell_nothing,
)


# What a mechanism says of its noise, in a form that a test can check ------------------------------


def moved_share(here: Released, there: Released) -> float:
    """Distance of two statistics in the mechanism's norm, as a share of its sensitivity."""
    if isinstance(here.mechanism, ObjectiveMechanism):
        return _moved_gradient(here, there)
    mechanism = here.mechanism
    if isinstance(mechanism, QuantileMechanism):  # the counts of each column by themselves
        moved = np.abs(here.statistic - there.statistic).sum(axis=1)
        return float(moved.max()) / mechanism.sensitivity
    difference = np.abs(np.ravel(here.statistic) - np.ravel(there.statistic))
    if isinstance(mechanism, ColumnPairsMechanism):  # the counts of each pair by themselves
        starts = np.cumsum([0] + [each.size for each in mechanism.references[:-1]])
        return float(np.add.reduceat(difference, starts).max()) / mechanism.sensitivity
    if isinstance(mechanism, GaussianMechanism):
        return float(np.linalg.norm(difference)) / mechanism.sensitivity
    if isinstance(mechanism, LaplaceMechanism):
        return float(difference.sum()) / mechanism.sensitivity
    if isinstance(mechanism, ExponentialMechanism):
        return float(difference.max()) / mechanism.sensitivity
    if isinstance(mechanism, EntryMechanism):
        # One entry may move and no other: each would cost epsilon, and an atom of its own.
        is_one = np.count_nonzero(difference) <= 1
        return float(difference.max()) / mechanism.entry_bound if is_one else math.inf
    return 0.0


def uniform_scores(released: Released, factor: float = 1.0) -> np.ndarray:
    """Return numbers uniform on (0, 1) if the noise has `factor` times the stated scale."""
    if isinstance(released.mechanism, ObjectiveMechanism):
        return _linear_term_scores(released, factor)
    mechanism: Any = released.mechanism
    if isinstance(mechanism, QuantileMechanism | ColumnPairsMechanism):
        return np.empty(0)  # choices, not a sum
    noise = np.asarray(released.output, dtype=float) - released.statistic
    if isinstance(mechanism, GaussianMechanism):
        scale = factor * math.sqrt(mechanism.variance())
        return np.asarray(norm.cdf(_independent(noise, released.method) / scale))
    if isinstance(mechanism, LaplaceMechanism):
        scale = factor * mechanism.sensitivity / mechanism.epsilon
        return np.asarray(laplace.cdf(np.ravel(noise), scale=scale))
    if isinstance(mechanism, EntryMechanism):
        scale = factor * mechanism.entry_bound / mechanism.epsilon
        return np.asarray(laplace.cdf(noise[noise != 0], scale=scale))
    return np.empty(0)


def _independent(noise: np.ndarray, method: str) -> np.ndarray:
    """Independent coordinates of equal variance: ``(m_ii, √2 m_ij)`` of a symmetric release."""
    if method != "release_symmetric":
        return np.ravel(noise)
    order = noise.shape[-1]
    stack = noise.reshape(-1, order, order)
    rows, columns = np.triu_indices(order, k=1)
    diagonal = np.arange(order)
    above = math.sqrt(2) * stack[:, rows, columns]
    return np.concatenate([stack[:, diagonal, diagonal].ravel(), above.ravel()])


def _moved_gradient(here: Released, there: Released) -> float:
    """The statistic is an objective: its gradient counts, at any point; here at two of them."""
    objectives = here.statistic.item(), there.statistic.item()
    moved = []
    for point in (here.output, np.zeros_like(here.output)):
        gradients = [objective.gradient(point) for objective in objectives]
        moved.append(float(np.linalg.norm(gradients[0] - gradients[1])))
    return max(moved) / float(here.mechanism.sensitivity)


def _linear_term_scores(released: Released, factor: float) -> np.ndarray:
    """Find the noise from the minimiser: there it balances all other gradients."""
    mechanism, point = released.mechanism, released.output
    linear = -(released.statistic.item().gradient(point) + mechanism.strong_convexity * point)
    if isinstance(mechanism, GammaObjectiveMechanism):
        length = float(np.linalg.norm(linear)) * mechanism.rate
        return np.asarray([gamma.cdf(length / factor, mechanism.size)])
    return np.asarray(norm.cdf(linear.ravel() / (factor * math.sqrt(mechanism.variance()))))
