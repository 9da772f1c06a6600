"""Search for settings at one price: the best of a random, hidden number of private runs.

A search has a plan (public, what every run releases), then one charge, then runs and a winner.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sfumato.core.arrays import Array, to_numpy
from sfumato.core.atomic_file import atomic_write
from sfumato.core.constraints import COMMON_PARAMETERS, Form, check_parameters, one_of, real
from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.chain import decode_event
from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.base import noise_status
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.selection import RunLaw
from sfumato.models.base import PrivateEstimator, target_range
from sfumato.models.pipelines import check_pipeline
from sfumato.models.saving import load, save
from sfumato.models.scores import are_right, unproved_of
from sfumato.models.statistics import NOT_THERE
from sfumato.privacy.events import Event, GaussianEvent, NonPrivateEvent, SelectionEvent
from sfumato.privacy.gaussian import epsilon_from_mu
from sfumato.privacy.guarantee import Guarantee, Relation, Status, Unit
from sfumato.privacy.renyi import selection_epsilon, selection_mu, with_max_runs, worst_options
from sfumato.sums.grid import truncate_to_grid
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import Codes, Statistic
from sfumato.tables.bounds import label_places
from sfumato.tables.cells import as_cells, as_numbers, columns_of, is_table

LAWS = {
    "poisson": ("poisson", 0.0),
    "logarithmic": ("negative_binomial", 0.0),
    "geometric": ("negative_binomial", 1.0),
}
HIDDEN = "the duration of the search stays secret: it reveals the number of runs"
FIXED = ("epsilon", "delta", "unit", "relation", "ledger")  # the promise is not up for a search
STEPS = 8  # of the bisection where runs are not Gaussian
SCORE_BITS = 20


# What a run releases ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreSum(Statistic):
    """``sum (s_i, 1/2)`` of numbers s between 0 and 1, of records with a label; (0, 0) without."""

    in_ball = 0  # scores are clipped

    @property
    def shape(self) -> tuple[int, ...]:
        """The score, and half of the records that were scored."""
        return (2,)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        """Add up scores."""
        terms = np.clip(to_numpy(rows)[:, :2], 0.0, (1.0, 0.5))
        return truncate_to_grid(terms, SCORE_BITS).sum(axis=0)

    def term_sensitivity(self, relation: Relation) -> float:  # noqa: ARG002 - the same for both
        """``√1.25``: the length of (1, 1/2); two records with a label are at most 1 apart."""
        # [V1] sensitivity of the score
        return math.sqrt(1.25)


def row_scores(model: Any, X: Any, y: Any) -> Array:
    """Return (s, 1/2) of each row, s 1 for a right label, or ``1 - (error / range)²``."""
    cells = as_cells(y)
    with warnings.catch_warnings(action="ignore"):  # they would tell of a row
        predicted = np.asarray(model.predict(X))
    if is_classifier(model):
        found = are_right(model.classes_, predicted, cells)
        is_known = label_places(np.asarray(model.classes_), cells) >= 0
    else:
        low, high = target_range(private_step(model)[1])
        truth = as_numbers(cells)
        is_known = np.isfinite(truth)
        truth = np.clip(np.where(is_known, truth, low), low, high)
        found = 1 - ((np.clip(predicted, low, high) - truth) / (high - low)) ** 2
    given = np.nan_to_num(np.asarray(found, dtype=np.float64).reshape(-1))
    return np.column_stack([given * is_known, is_known / 2])


def score_records(column: Array, private: PrivateEstimator, X: Any) -> ArrayRecords:
    """Return scores as records of the unit and relation that the estimator promises."""
    unit, name = private._reader.person, getattr(private.bounds, "person", None)
    if unit is None:
        return ArrayRecords(column, relation=private.relation)
    if name is None or not is_table(X):
        raise InvalidInputError(
            "A search with unit 'person' needs a table whose bounds name the column of IDs: "
            "TableBounds.from_dict(..., person='patient', person_rows=8)."
        )
    return ArrayRecords.of_persons(  # [V10] a person's scores are one term
        column,
        groups=columns_of(X, [name])[name],
        unit=unit,
        relation=private.relation,
        group_by_person=False,
    )


class _Asking(Exception):  # noqa: N818 - no error: it ends a fit just before its first draw
    """Stands in for a ledger: notes what would be charged, and stops there."""

    events: tuple[Event, ...]

    def charge(self, *events: Event, unit: Any = None, relation: Any = None) -> Receipt:  # noqa: ARG002
        self.events = events
        raise self

    def __deepcopy__(self, memo: object) -> _Asking:
        return self


def planned_events(candidate: Any, X: Any, y: Any) -> tuple[Event, ...]:
    """Run `fit` up to its charge and return the events that it would charge; nothing is drawn.

    Events are functions of public facts, and every fit charges before its first draw: that is what
    the proof sheets of all estimators, and tests of all of them, keep.
    """
    # [V2] the releases of a run are known before the search is charged
    candidate.set_params(**{f"{private_step(candidate)[0]}ledger": _Asking()})
    try:
        candidate.fit(X, y)
    except _Asking as asked:
        return asked.events
    raise InvalidInputError(f"{type(candidate).__name__} released something without a charge.")


def private_step(estimator: Any) -> tuple[str, PrivateEstimator]:
    """Return the prefix of the private estimator's parameters in a pipeline, and the estimator."""
    if isinstance(estimator, PrivateEstimator):
        return "", estimator
    if isinstance(estimator, Pipeline):
        check_pipeline(estimator)
        name, last = estimator.steps[-1]
        if [s for _, s in estimator.steps if isinstance(s, PrivateEstimator)] == [last]:
            return f"{name}__", last
    raise InvalidInputError(
        "'estimator' must be a private estimator of Sfumato, or a pipeline whose last step, and no "
        f"other, is one. Got {type(estimator).__name__} instead."
    )


@dataclass(frozen=True)
class SearchCost:
    """What a search costs and what it leaves to each run; public numbers only.

    Parameters
    ----------
    event : SelectionEvent
        The one charge.
    epsilon, delta : float
        The budget of the whole search.
    epsilon_each : float
        Epsilon of one run's model, at the same delta.
    """

    event: SelectionEvent
    epsilon: float
    delta: float
    epsilon_each: float

    def __str__(self) -> str:
        return (
            f"One charge of epsilon {self.epsilon:g} at delta {self.delta:g} pays for "
            f"{self.event.mean_runs:g} runs on average, each with epsilon {self.epsilon_each:.3g}."
        )


# The search -------------------------------------------------------------------------------------

# What a run releases: score as a sum and as a mean, number of its settings, model.
_Run = tuple[tuple[float, float], int, Any]
# What the search costs, its settings, what a run of each releases, and the noise of a score.
_Plan = tuple[SearchCost, list[dict[str, Any]], list[tuple[Event, ...]], GaussianMechanism]


def _of_winner(name: str, says: str, returns: str) -> Any:
    """Return the method of a search that asks its winner."""

    def ask(self: Any, X: Any, y: Any = None) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X, *([] if y is None else [y]))

    ask.__name__, ask.__qualname__ = name, f"PrivateSearchCV.{name}"
    ask.__doc__ = f"""{says}

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,), optional
            Labels or targets, where the winner takes them.

        Returns
        -------
        {returns}
            As the winner returns them.
        """
    return available_if(
        lambda search: hasattr(getattr(search, "best_estimator_", search.estimator), name)
    )(ask)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """The best of K runs of private fits and private scores, K random and hidden; one charge.

    Each run draws one of the settings in `param_grid` at random, fits the estimator and scores it
    with noise. Only the winner comes out, so the price does not grow with the number of settings
    (Liu and Talwar 2019; Papernot and Steinke 2022).

    Parameters
    ----------
    estimator : private estimator, or pipeline that ends with one
        Its `epsilon`, `delta` and `ledger` are replaced by those of the search; `unit`, `relation`
        and `bounds` are its own.
    param_grid : dict or list of dict
        Values by parameter name, as in `sklearn.model_selection.GridSearchCV`.
    runs : {"poisson", "logarithmic", "geometric"}, default="poisson"
        Distribution of the number of runs, given that there is one.
    mean_runs : float, default=5.0
        Runs on average.
    score_share : float, default=0.1
        Share of ``mu²`` of a run for its score: the sum over rows of 1 for a right label, or of
        ``1 - (error / range)²``, and the number of rows with a label.
    constant_time : bool, default=True
        Make all runs that the law allows and look at K of them, so that neither duration nor
        progress reveals K. False makes K runs only; the guarantee then has a condition.
    resume : path-like, optional
        A folder for this search alone, as secret as the rows. After an interruption the same call
        searches again without a second charge; after the end it returns the same winner.
    n_jobs : int, optional
        Runs at a time.
    epsilon, delta : float, default=1.0, 1e-6
        The budget of the whole search.
    ledger : DatasetBudget, optional
        The budget that pays; see `sfumato.Ledger`.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner. Its `guarantee_` is that of the whole search.
    best_params_ : dict
        Its settings.
    best_score_ : float
        Its noisy score: the mean over rows with a label, or over persons where they are the unit.
    cost_ : SearchCost
        What was paid.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    Notes
    -----
    There is no ``cv_results_``: scores of other runs, and their number, are not released.

    Privacy
    -------
    Unit and relation : those of the estimator.
    Released : model, settings and noisy score of the best of K runs.
    Sensitivity : of the score √1.25, or that of a person's scores; of a fit as in its own sheet.
    Guarantee : Papernot and Steinke's theorems 2 and 6 on the Rényi divergence of a run.
    Assumptions and numerics : K and the other runs stay hidden. Proof: docs/guarantees/search.md.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateGaussianClassifier, PrivateSearchCV
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> model = PrivateGaussianClassifier(bounds=Bounds(norm=80.0, labels=[0, 1, 2]))
    >>> search = PrivateSearchCV(model, {"n_components": [4, 16]}, mean_runs=2, epsilon=4.0)
    >>> search.fit(X, y).guarantee_.epsilon
    4.0
    """

    estimator: Any
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    runs: str = "poisson"
    mean_runs: float = 5.0
    score_share: float = 0.1
    constant_time: bool = True
    resume: Any = None
    n_jobs: int | None = None
    epsilon: float = 1.0
    delta: float = 1e-6
    ledger: Any = None

    stored_part: ClassVar[str] = "best_estimator_"  # what `sfumato.save` takes instead
    parameters: ClassVar[Form] = {
        "epsilon": real(above=0.0, most=math.inf),
        "delta": real(above=0.0, below=1.0),  # a search has no pure epsilon
        "runs": one_of(*LAWS),
        "score_share": real(above=0.0, below=1.0),
        "n_jobs": COMMON_PARAMETERS["n_jobs"],
    }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = inner.input_tags
        tags.non_deterministic = True
        return tags

    def cost(self, X: Any, y: Any = None) -> SearchCost:
        """Return what `fit` would charge and leave to each run; nothing is charged or drawn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As for `fit`.
        y : array-like of shape (n_samples,)
            As for `fit`.

        Returns
        -------
        SearchCost
            Public numbers.
        """
        return self._plan(X, y)[0]

    def fit(self, X: Any, y: Any = None) -> Self:
        """Search, and keep the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or a table that the estimator takes.
        y : array-like of shape (n_samples,), optional
            Labels or targets; by default the target column of a table that its bounds name.

        Returns
        -------
        Self
            The fitted search.
        """
        prefix, private = private_step(self.estimator)
        bounds: Any = private.bounds
        if y is None and getattr(bounds, "target", None) is not None:
            y = bounds.target_of(X)
        if y is None:
            raise InvalidInputError(
                "PrivateSearchCV requires y to be passed, but the target y is None: runs are "
                "scored by their targets."
            )
        cost, settings, events, score_noise = self._plan(X, y)

        def run(choice: int) -> _Run:
            """Fit and score one candidate; what is drawn is part of what the search pays for."""
            paid = (*events[choice], score_noise.event())
            receipt = Receipt(paid, unit=private.protected_unit, relation=private.relation)
            model = self._candidate(settings[choice], cost.epsilon_each, receipt)
            model.fit(X, y)
            model.set_params(**{f"{prefix}ledger": None})
            # There may be no rows where their number is secret.
            column = row_scores(model, X, y) if count_rows(X) else np.empty((0, 2))
            records = score_records(column, private, X)
            total, half = records.release(ScoreSum(), score_noise, receipt).tolist()
            known, number = max(2 * half, 1.0), records.public_rows
            noise = 2 * math.sqrt(records.variance_of(score_noise))
            if number is not None and number - known < NOT_THERE * noise:  # all have a label
                known = number
            return (total, min(max(total / known, 0.0), 1.0)), choice, model

        unit = str(private.protected_unit)
        promise: dict[str, Any] = {"unit": unit, "relation": private.relation}

        def find(charges: tuple[str, ...]) -> _Run:
            found, runs = self._search(cost.event, len(settings), run)
            # Its own guarantee would leave out the other runs.
            guarantee = replace(self._guarantee(cost, runs, X), charges=charges)
            private_step(found[2])[1].guarantee_ = guarantee
            return found

        if self.resume is None:
            score, choice, model = find(prepay(self.ledger, cost.event, **promise).charges)
        else:
            score, choice, model = self._resume(cost.event, settings, promise, find)
        self.best_estimator_ = model
        self.best_params_ = dict(settings[choice])
        self.best_score_ = score[1]
        self.cost_ = cost
        self.guarantee_ = private_step(model)[1].guarantee_
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        return self

    def _resume(
        self,
        event: SelectionEvent,
        settings: list[dict[str, Any]],
        promise: Mapping[str, Any],
        find: Callable[[tuple[str, ...]], _Run],
    ) -> _Run:
        """Return the winner that the folder contains, or find, store and return it."""
        folder, ledger = Path(self.resume), self.ledger
        if not isinstance(ledger, DatasetBudget | None):
            raise InvalidInputError("'resume' finds its charge in a ledger: give Ledger.dataset.")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        note, winner = folder / "search.json", folder / "winner.sfumato"
        same = clone(self).set_params(
            estimator=self._candidate({}, 1.0), resume=None, ledger=None, n_jobs=None
        )
        public = [event.to_dict(), same.__repr__(N_CHAR_MAX=1_000_000)]
        digest = sha256(json.dumps(public).encode()).hexdigest()
        held = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # [V12] ends with the process
            state: dict[str, Any] = {"search": digest, "reference": uuid.uuid4().hex}
            if note.exists():
                state = json.loads(note.read_text())
            if state["search"] != digest:
                raise InvalidInputError(
                    f"'resume': the folder '{folder}' is from another search: other settings. Give "
                    "it those settings, or another folder."
                )
            if winner.exists():
                score, choice = state["winner"]
                return tuple(score), choice, load(winner)
            for each in settings:  # what cannot be stored is refused before the charge
                save(self._candidate(each, 1.0), folder / "candidate.sfumato")
            with atomic_write(note) as file:
                file.write(json.dumps(state).encode())
            # [V11] the charge of an interrupted search, which showed nothing
            charges = tuple(
                line.mark
                for line in (() if ledger is None else ledger.lines())
                if line.note.reference == state["reference"] and decode_event(line) == event
            )
            if ledger is not None and not charges:
                charges = ledger.charge(event, reference=state["reference"], **promise).charges
            found = find(charges)
            with atomic_write(note) as file:
                file.write(json.dumps({**state, "winner": found[:2]}).encode())
            save(found[2], winner)  # from now on it is the winner
        except BlockingIOError:
            raise InvalidInputError(
                f"'resume': another search is using the folder '{folder}'. Wait until it ends; the "
                "same call then returns its winner."
            ) from None
        finally:
            os.close(held)
        return found

    def _plan(self, X: Any, y: Any) -> _Plan:
        """Return what every run does: public, known before the charge."""
        prefix, private = private_step(self.estimator)
        check_parameters(self, self.parameters)
        if not (is_classifier(self.estimator) or is_regressor(self.estimator)):
            raise InvalidInputError(
                f"{type(private).__name__} has no labels or targets by which runs can be scored."
            )
        moved = score_records(np.zeros((count_rows(X), 2)), private, X).sensitivity(ScoreSum())
        settings, known = list(ParameterGrid(self.param_grid)), self.estimator.get_params()
        # Who a person is, and how many rows they have, is part of the promise.
        fixed = FIXED if private.protected_unit is not Unit.PERSON else (*FIXED, "bounds")
        for name in {name for each in settings for name in each}:
            if name.removeprefix(prefix) in fixed:
                raise InvalidInputError(
                    f"'param_grid' contains {name!r}: the guarantee is that of the search; set "
                    f"{name.removeprefix(prefix)!r} there, or on the estimator."
                )
            if name not in known:
                listed = ", ".join(sorted(known.keys() - set(fixed)))
                raise InvalidInputError(f"There is no parameter {name!r} to search: {listed}.")
        if not settings:
            raise InvalidInputError("'param_grid' contains no settings.")
        kind, shape = LAWS[self.runs]
        law = SelectionEvent(((GaussianEvent(1.0),),), kind, float(self.mean_runs), shape)
        total, delta = float(self.epsilon), float(self.delta)
        has_noise = math.isfinite(total)
        law = with_max_runs(law, *((delta, total) if has_noise else (1e-6, 1.0)))

        def at(mu: float) -> _Plan:
            """Ask every candidate what it would release if a run had this mu."""
            epsilon = math.inf
            score = GaussianMechanism(moved, 0.0)
            if has_noise:
                epsilon = epsilon_from_mu(mu * math.sqrt(1 - self.score_share), delta)
                score = GaussianMechanism(moved, 1 / (mu * math.sqrt(self.score_share)))
            candidates = [self._candidate(each, epsilon) for each in settings]
            events = [planned_events(each, X, y) for each in candidates]
            # [V7] fit and score read the same rows
            options = tuple((*each, score.event()) for each in events)
            event = replace(
                law, options=worst_options(options if has_noise else ((NonPrivateEvent(),),))
            )
            return SearchCost(event, total, delta, epsilon), settings, events, score

        mu = selection_mu(law, total, delta) if has_noise else math.inf
        plan = at(mu)
        if not has_noise or selection_epsilon(plan[0].event, delta) <= total:
            return plan
        # Runs that are not Gaussian may cost more at the same epsilon: less for each of them.
        low, high, found = 0.0, mu, None
        for _ in range(STEPS):
            tried = at((low + high) / 2)
            if selection_epsilon(tried[0].event, delta) <= total:
                low, found = (low + high) / 2, tried
            else:
                high = (low + high) / 2
            if found is not None and high - low < 0.04 * high:
                break
        if found is None:
            raise InvalidInputError(
                f"No amount of noise achieves epsilon {total:g} at delta {delta:g} for this search."
            )
        return found

    def _candidate(self, settings: Mapping[str, Any], epsilon: float, payer: Any = None) -> Any:
        """Return a fresh estimator with these settings and this budget."""
        prefix, private = private_step(self.estimator)
        delta = 0.0 if private.delta == 0 else float(self.delta)
        promise = {"epsilon": epsilon, "delta": delta, "ledger": payer}
        return clone(self.estimator).set_params(
            **settings, **{f"{prefix}{name}": value for name, value in promise.items()}
        )

    def _search(
        self, event: SelectionEvent, n_settings: int, run: Callable[[int], _Run]
    ) -> tuple[_Run, list[Guarantee]]:
        """Return the winner, and the guarantees of all runs."""
        law = RunLaw(event)
        n_runs = (event.max_runs or 1) if self.constant_time else law.number()
        choices = law.choices(n_settings, n_runs).tolist()
        scores: list[tuple[float, float]] = []
        kept: dict[int, _Run] = {}  # runs better than all before: one is the best of the first K
        guarantees: list[Guarantee] = []
        # What a losing run warns of, by its own releases, would be one more output.
        with warnings.catch_warnings(action="ignore"):
            while len(scores) < n_runs:
                end = min(len(scores) + max(1, effective_n_jobs(self.n_jobs)), n_runs)
                for done in map_in_parallel(run, choices[len(scores) : end], n_jobs=self.n_jobs):
                    guarantees.append(private_step(done[2])[1].guarantee_)
                    if not scores or done[0] > max(scores):  # of equal ones the first counts
                        kept[len(scores)] = done
                    scores.append(done[0])
        n_counted = law.number() if self.constant_time else n_runs  # [V6] K, after all runs
        return kept[max(place for place in kept if place < n_counted)], guarantees

    def _guarantee(self, cost: SearchCost, runs: list[Guarantee], X: Any) -> Guarantee:
        if any(each.status is Status.REFUTED for each in runs):
            raise InvalidInputError("An estimator whose guarantee is refuted cannot be searched.")
        asked = cost.epsilon
        spent = selection_epsilon(cost.event, cost.delta) if math.isfinite(asked) else math.inf
        conditions = [condition for each in runs for condition in each.conditions]
        conditions += [HIDDEN] if not self.constant_time else []
        conditions += unproved_of(self.estimator, X)
        return replace(
            runs[0],
            epsilon=asked if asked * (1 - 1e-4) <= spent <= asked else spent,
            delta=cost.delta,
            status=noise_status(),
            conditions=(),
            record_reading=None,
            public=(*runs[0].public, "settings that were tried", "law of the number of runs"),
            events=(cost.event,),
        ).only_if(*dict.fromkeys(conditions))

    predict = _of_winner("predict", "Predict with the winner.", "ndarray")
    predict_proba = _of_winner("predict_proba", "Return class probabilities.", "ndarray")
    decision_function = _of_winner("decision_function", "Return scores of classes.", "ndarray")
    score = _of_winner("score", "Score the winner on public rows, without privacy.", "float")


def count_rows(X: Any) -> int:
    return len(X if hasattr(X, "__len__") else np.asarray(X))
