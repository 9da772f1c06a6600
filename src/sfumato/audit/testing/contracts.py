"""The contracts of a private estimator, one function each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import gamma, kstest, laplace, norm
from sklearn.base import clone

from sfumato.audit.testing.inspection import holds_a_row, leaves, saved_bytes, unpacked
from sfumato.audit.testing.taint import compare_replays, fit, outcome_of, require, rows_of_a_person
from sfumato.exceptions import BudgetExceededError, MissingBoundsError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sfumato.mechanisms.base import AdditiveMechanism, Released, taped
from sfumato.mechanisms.entropy import Words, drawing_from, seeded
from sfumato.mechanisms.exponential import QuantileMechanism, SpanningTreeMechanism
from sfumato.mechanisms.objective import GammaObjectiveMechanism, ObjectiveMechanism
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import Event, flatten
from sfumato.privacy.guarantee import Relation, Status, Unit
from sfumato.tables.bounds import Bounds

FALSE_ALARM = 1e-6  # chance that a right noise law is called wrong
SCORES = 1200  # noise values a release shows; 2/3 or 3/2 of the scale pass once in 10^6
MAX_FITS = 500
Oracle = Callable[[Any, np.ndarray, np.ndarray | None], None]
Data = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class PrivateCase:
    """An unfitted private estimator and data to try it on.

    Parameters
    ----------
    estimator : estimator
        Unfitted, with bounds and a finite epsilon.
    X : ndarray of shape (n_rows, n_features)
        Rows inside the bounds, a few hundred.
    y : ndarray, optional
        Labels or targets.
    oracle : callable, optional
        ``oracle(fitted, X, y)`` asserts that the estimator fitted with infinite epsilon equals
        its non-private counterpart.
    rows_at_bound : ndarray, optional
        Rows that attain the sensitivity; by default rows on the edge of the bounds along the
        principal directions of X.
    """

    estimator: Any
    X: np.ndarray
    y: np.ndarray | None = None
    oracle: Oracle | None = None
    rows_at_bound: np.ndarray | None = None

    def fitted(self, **params: Any) -> Any:
        """Return a fitted clone with some parameters changed.

        Parameters
        ----------
        **params : object
            Parameters that are changed.

        Returns
        -------
        object
            The fitted clone.
        """
        return fit(clone(self.estimator).set_params(**params), self.X, self.y)


def neighbours(case: PrivateCase) -> tuple[list[Data], list[tuple[int, int]]]:
    """Return data sets that differ in their last row or person, and which of them are neighbours.

    The rows lie on the edge of the bounds, far outside them, inside, and are not finite; each
    comes with two labels. With unit "entry" one number of the last row is moved instead, by the
    `entry_bound` or through the whole range; its label stays, for labels are public there.
    """
    estimator, X, y = case.estimator, case.X, case.y
    bounds: Bounds = estimator.array_bounds
    k, n_features = rows_of_a_person(estimator), X.shape[1]
    box = bounds.box(n_features)

    def with_last(row: np.ndarray, label: Any) -> Data:
        labels = None if y is None else y.copy()
        if labels is not None:
            labels[-k:] = label
        return np.vstack([X[:-k], *[row] * k]), labels

    members: list[Data] = []
    if estimator.protected_unit is Unit.ENTRY:
        asked, label = estimator.entry_bound, None if y is None else y[-1]
        reach = np.full(n_features, bounds.norm or 0.0)
        low, high = (-reach, reach) if box is None else box
        for column in {0, int(np.argmin(high - low)), int(np.argmax(high - low))}:
            a, b = low[column], high[column]
            moves = [(a, b), (a - 9, b + 9), (np.nan, b), (np.inf, a)]
            if asked is not None:
                starts = (a, b - asked, a - asked / 2, a - 9, X[-1, column])
                moves = [(start, start + asked) for start in starts]
            for move in moves:
                for number in move:
                    row = np.array(X[-1])
                    row[column] = number
                    members.append(with_last(row, label))
        return members, [(i, i + 1) for i in range(0, len(members), 2)]
    edge = case.rows_at_bound
    if edge is None:
        centre, radius = bounds.ball(n_features)
        axes = np.linalg.svd(X - centre, full_matrices=False)[2][:2]
        far = centre + radius * np.vstack([axes, -axes[:1], axes.sum(axis=0) / np.sqrt(2)])
        edge = np.vstack([bounds.clip(far), centre])
        if box is not None and bounds.has_ranges:  # corners, opposite and nearly orthogonal ones
            edge = np.vstack([edge, *box, np.where(np.arange(n_features) % 2 == 1, *box)])
    odd = np.vstack([10 * edge[:2], np.full_like(edge[:1], np.nan), X[:1]])
    labels = [None] if y is None else list(np.unique(y)[:2])
    members = [with_last(row, label) for row in np.vstack([edge, odd]) for label in labels]
    if Relation(estimator.relation) is Relation.REPLACE_ONE:
        return members, list(combinations(range(len(members)), 2))
    members = [(X[:-k], None if y is None else y[:-k]), *members]
    return members, [(i, 0) for i in range(1, len(members))]


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
    rows = X.copy()  # what is constant is secret
    rows[:, -2:] = rows[:, -1:]
    rows[:, 0] = rows[0, 0]
    yield np.asfortranarray(rows, dtype=np.float32), y
    odd = np.tile(X[:1], (len(X), 1))  # all the same, but for a few that no bounds admit
    centre, radius = case.estimator.array_bounds.ball(X.shape[1])
    odd[1], odd[2], odd[3], odd[4] = np.nan, np.inf, 1e308, centre + 10 * (1 + radius)
    is_public = y is None or case.estimator.protected_unit is Unit.ENTRY  # whether labels are
    yield odd, y if y is None or is_public else np.full_like(y, y[0])
    cells = X.astype(object)
    cells[0, 0] = None
    labels = y
    if y is not None and not is_public:
        labels = y.astype(object)
        labels[0] = None
    yield cells, labels


def _scrambled(case: PrivateCase) -> tuple[np.ndarray, np.ndarray | None]:
    centre = case.estimator.array_bounds.ball(case.X.shape[1])[0]
    other = centre - 0.5 * (np.flip(case.X, axis=1) - centre)
    y_other = None if case.y is None else np.roll(case.y, 1)
    if case.estimator.protected_unit is Unit.ENTRY:  # labels are public, and read at any time
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
    largest, found = np.zeros(len(tape.releases)), []
    members, pairs = neighbours(case)
    for data in members:
        with taped(playback=tape) as replay:  # released values are held fixed
            fit(clone(case.estimator).set_params(epsilon=1e6), *data)
        found.append(replay.releases)
    for one, other in pairs:
        sides = zip(found[one], found[other], strict=True)
        moved = [moved_share(a, b) for a, b in sides]
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
    asked = (str(case.estimator.protected_unit), str(case.estimator.relation))
    require(ledger.words == {asked}, "The charge must state the unit and the relation.")
    require(
        (str(promised.unit), str(promised.relation)) == asked,
        "The guarantee states a different unit or relation from the one asked for.",
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
    outcomes: list[Exception | None] = []
    ledgers = _WatchedLedger(refuses=True), _WatchedLedger()
    for ledger in ledgers:
        try:
            with drawing_from(ledger.draw):
                case.fitted(ledger=ledger)
            outcomes.append(None)
        except (BudgetExceededError, _DrawError) as error:
            outcomes.append(error)
    require(
        isinstance(outcomes[0], BudgetExceededError) and ledgers[0].happened == ["refused"],
        "A refused charge must stop fit before any noise is drawn.",
    )
    require(
        isinstance(outcomes[1], _DrawError) and ledgers[1].happened[0] == "charged",
        "The ledger must be charged before noise is drawn.",
    )


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


DAMAGES: dict[str, Callable[[np.ndarray, Any], tuple[Any, Any]]] = {
    "a single row": lambda X, y: (X[0], y),
    "a stack of tables": lambda X, y: (X[None], y),
    "cells of text": lambda X, y: (np.array([[f"word {c}" for c in row] for row in X], object), y),
    "cells that are lists": lambda X, y: ([[list(row[:1]), *row[1:]] for row in X], y),
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


# What a mechanism says of its noise, in a form that a test can check ----------------------------


def moved_share(here: Released, there: Released) -> float:
    """Distance of two statistics in the mechanism's norm, as a share of its sensitivity."""
    mechanism: Any = here.mechanism
    if isinstance(mechanism, ObjectiveMechanism):  # its gradient counts, at any point; here at two
        moved = []
        for point in (here.output, np.zeros_like(here.output)):
            a, b = (each.statistic.item().gradient(point) for each in (here, there))
            moved.append(float(np.linalg.norm(a - b)))
        return max(moved) / float(mechanism.sensitivity)
    difference = np.abs(np.ravel(here.statistic) - np.ravel(there.statistic))
    if isinstance(mechanism, QuantileMechanism):  # the counts of each column alone
        columns = difference.reshape(np.shape(here.statistic)).sum(axis=1)
        return float(columns.max()) / mechanism.sensitivity
    if isinstance(mechanism, SpanningTreeMechanism):  # the counts of each pair alone
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
    mechanism: Any = released.mechanism
    if isinstance(mechanism, ObjectiveMechanism):
        # At the minimiser the noise balances all other gradients.
        point = released.output
        linear = -(released.statistic.item().gradient(point) + mechanism.strong_convexity * point)
        if isinstance(mechanism, GammaObjectiveMechanism):
            length = float(np.linalg.norm(linear)) * mechanism.rate
            return np.asarray([gamma.cdf(length / factor, mechanism.size)])
        return np.asarray(norm.cdf(linear.ravel() / (factor * math.sqrt(mechanism.variance()))))
    if isinstance(mechanism, QuantileMechanism | SpanningTreeMechanism):
        return np.empty(0)  # choices, not a sum
    noise = np.asarray(released.output, dtype=float) - released.statistic
    if isinstance(mechanism, GaussianMechanism):
        if released.method == "release_symmetric":
            # Independent coordinates of equal variance: ``(m_ii, √2 m_ij)``
            order = noise.shape[-1]
            stack = noise.reshape(-1, order, order)
            rows, columns = np.triu_indices(order, k=1)
            above = math.sqrt(2) * stack[:, rows, columns]
            diagonal = stack[:, np.arange(order), np.arange(order)]
            noise = np.concatenate([diagonal.ravel(), above.ravel()])
        return np.asarray(norm.cdf(np.ravel(noise) / (factor * math.sqrt(mechanism.variance()))))
    if isinstance(mechanism, LaplaceMechanism):
        scale = factor * mechanism.sensitivity / mechanism.epsilon
        return np.asarray(laplace.cdf(np.ravel(noise), scale=scale))
    if isinstance(mechanism, EntryMechanism):
        scale = factor * mechanism.entry_bound / mechanism.epsilon
        return np.asarray(laplace.cdf(noise[noise != 0], scale=scale))
    if isinstance(mechanism, AdditiveMechanism):
        raise NotImplementedError(f"`uniform_scores` needs the law of {type(mechanism).__name__}.")
    return np.empty(0)
