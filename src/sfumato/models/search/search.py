"""Search for settings at one price: the best of a random number of private runs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.progress import Progress
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import Tags, get_tags

from sfumato.core.parallel import map_in_parallel
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.base import noise_status
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.selection import RunLaw
from sfumato.models.search.candidates import (
    candidates_of,
    planned_events,
    private_step,
    with_budget,
)
from sfumato.models.search.cost import SearchCost, SearchPlan
from sfumato.models.search.resuming import SearchFolder
from sfumato.models.search.scores import ScoreSum, row_scores, score_records, scorer_for
from sfumato.models.search.winner import WinnerMethods
from sfumato.privacy.events import Event, GaussianEvent, NonPrivateEvent, SelectionEvent
from sfumato.privacy.gaussian import epsilon_from_mu
from sfumato.privacy.guarantee import Guarantee, Relation, Status, Unit
from sfumato.privacy.selection import (
    selection_epsilon,
    selection_mu,
    with_max_runs,
    worst_options,
)
from sfumato.tables.cells import check_workers

LAWS = {"poisson": ("poisson", 0.0), "logarithmic": ("negative_binomial", 0.0)} | {
    "geometric": ("negative_binomial", 1.0)
}
HIDDEN = "nobody learns how long the search took: its duration tells the number of runs"
ROW_WISE = "'scoring' scores each row by that row and the model alone"
STEPS = 8  # of the bisection where runs are not Gaussian


@dataclass(frozen=True)
class _Run:
    """The release of one run."""

    score: float
    choice: int
    model: Any


class PrivateSearchCV(WinnerMethods, MetaEstimatorMixin, BaseEstimator):
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
    runs : {"poisson", "logarithmic", "geometric"} or float, default="poisson"
        Distribution of the number of runs, given that there is one; a number above -1 is the shape
        of a truncated negative binomial distribution (0 is logarithmic, 1 geometric).
    mean_runs : float, default=5.0
        Runs on average.
    validation_fraction : float, default=0.0
        0 scores each model on the rows that it was fitted to, at `score_share` of the budget.
        Otherwise each row is kept for scores alone with this probability; then fit and score read
        different rows and each may spend all that a run has. Not offered for unit "person".
    score_share : float, default=0.1
        Share of ``mu²`` of a run for its score, where the rows are the same.
    scoring : callable, optional
        ``scoring(model, X, y)`` gives a number in [0, 1] per row, computed of that row and the
        model alone. By default 1 for a right label, or ``1 - (error / range)²``.
    constant_time : bool, default=True
        Make all runs that the law allows and look at K of them, so that neither duration nor
        progress reveals K. False makes K runs only; the guarantee then has a condition.
    resume : path-like, optional
        A folder from which the search continues after an interruption, without a second charge. It
        is as secret as the rows until the search has ended.
    n_jobs : int, optional
        Runs at a time.
    verbose : bool, default=False
        Show a progress bar, with a total only under `constant_time`, where it is public.
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
        Its noisy score: the mean over rows, or over persons where they are the unit, if their
        number is public, else the sum.
    cost_ : SearchCost
        What was paid.
    guarantee_ : Guarantee
        The privacy guarantee of the fit.

    See Also
    --------
    sfumato.privacy.selection : The price of a search.

    Notes
    -----
    There is no ``cv_results_``: scores of other runs, and their number, are not released.

    Privacy
    -------
    Unit and relation : those of the estimator.
    Released : model, settings and noisy score of the best of K runs.
    Sensitivity : of the score 1, or that of a person's scores; of a fit as in its own sheet.
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

    stored_part: ClassVar[str] = "best_estimator_"  # what `sfumato.save` takes instead

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        runs: str | float = "poisson",
        mean_runs: float = 5.0,
        validation_fraction: float = 0.0,
        score_share: float = 0.1,
        scoring: Any = None,
        constant_time: bool = True,
        resume: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: Any = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.runs = runs
        self.mean_runs = mean_runs
        self.validation_fraction = validation_fraction
        self.score_share = score_share
        self.scoring = scoring
        self.constant_time = constant_time
        self.resume = resume
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger

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

    def cost(self, X: ArrayLike, y: ArrayLike | None = None) -> SearchCost:
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
        return self._cost(self._plan(X, y))

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
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
        y = self._targets(X, y)
        plan = self._plan(X, y)
        with self._folder(plan, X) or nullcontext() as folder:
            return self._fitted(plan, X, y, folder)

    def _fitted(self, plan: SearchPlan, X: Any, y: Any, folder: SearchFolder | None) -> Self:
        if folder is not None and folder.state["winner"] is not None:  # released before
            released = folder.state["winner"]
            winner = _Run(released["score"], released["choice"], folder.winner())
            return self._keep(winner, plan, winner.model.guarantee_)
        self._pay(plan, folder)
        winner, guarantees = self._search(plan, (X, y), folder)
        guarantee = self._guarantee(plan, guarantees)
        _stamp(winner.model, guarantee)
        if folder is not None:
            folder.finish(winner.model, winner.score, winner.choice)
        return self._keep(winner, plan, guarantee)

    # Before the charge ------------------------------------------------------------------------

    def _targets(self, X: Any, y: Any) -> Any:
        """Return what runs are scored by: targets that were given, or those of a table."""
        bounds: Any = getattr(private_step(self.estimator)[1], "bounds", None)
        if y is None and getattr(bounds, "target", None) is not None:
            y = bounds.target_of(X)
        if y is None and self.scoring is None:
            scorer_for(self.estimator, None)  # what has no targets needs a scoring first of all
            raise InvalidInputError(
                "PrivateSearchCV requires y to be passed, but the target y is None: runs are "
                "scored by their targets."
            )
        return y

    def _plan(self, X: Any, y: Any) -> SearchPlan:
        self._check()
        n_scored = round(self.validation_fraction * n_rows(X))
        if self.validation_fraction and not n_scored and self._relation is Relation.REPLACE_ONE:
            raise InvalidInputError("'validation_fraction' of so few rows leaves none for scores.")
        moved = self._score_sensitivity(X)  # of all rows: the part that is scored may be larger
        X, y = self._parts(X, y)[:2]
        settings = candidates_of(self.estimator, self.param_grid)
        scorer_for(self.estimator, self.scoring)
        law = self._law()
        if math.isinf(self.epsilon):
            return self._planned(settings, X, y, law, math.inf, moved)
        mu = selection_mu(law, float(self.epsilon), float(self.delta))
        plan = self._planned(settings, X, y, law, mu, moved)
        if selection_epsilon(plan.event, self.delta) <= self.epsilon:
            return plan
        # Runs that are not Gaussian may cost more at the same epsilon: less for each of them.
        low, high, found = 0.0, mu, None
        for _ in range(STEPS):
            middle = (low + high) / 2
            tried = self._planned(settings, X, y, law, middle, moved)
            if selection_epsilon(tried.event, self.delta) <= self.epsilon:
                low, found = middle, tried
            else:
                high = middle
            if found is not None and high - low < 0.04 * high:
                break
        if found is None:
            raise InvalidInputError(
                f"No amount of noise achieves epsilon {self.epsilon:g} at delta "
                f"{self.delta:g} for this search."
            )
        return found

    def _planned(
        self,
        settings: list[dict[str, Any]],
        X: Any,
        y: Any,
        law: SelectionEvent,
        mu: float,
        moved: float,
    ) -> SearchPlan:
        """Ask every candidate what it would release if a run had this mu; a score is `moved`."""
        _, private = private_step(self.estimator)
        shared = not self.validation_fraction
        fit_mu = mu * math.sqrt(1 - self.score_share) if shared else mu
        score_mu = mu * math.sqrt(self.score_share) if shared else mu
        delta = 0.0 if private.delta == 0 else float(self.delta)
        epsilon = math.inf if math.isinf(mu) else epsilon_from_mu(fit_mu, float(self.delta))
        score = GaussianMechanism(moved, 0.0 if math.isinf(mu) else 1 / score_mu)
        events = [
            planned_events(
                with_budget(self.estimator, each, epsilon=epsilon, delta=delta, ledger=None), X, y
            )
            for each in settings
        ]
        if math.isinf(mu):
            options: list[tuple[Event, ...]] = [(NonPrivateEvent(),)]
        elif shared:  # [V7] both read the same rows
            options = [(*each, score.event()) for each in events]
        else:  # [V8] a row is in one part only
            options = [*events, (score.event(),)]
        event = replace(law, options=worst_options(tuple(options)))
        return SearchPlan(settings, events, epsilon, delta, score, event)

    def _score_sensitivity(self, X: Any) -> float:
        column = np.zeros((n_rows(X), 1))  # as many as are public, or as are allowed
        _, private = private_step(self.estimator)
        return score_records(column, private, X).sensitivity(ScoreSum())

    def _law(self) -> SelectionEvent:
        name, shape = LAWS.get(self.runs, ("negative_binomial", self.runs))  # type: ignore[arg-type]
        law = SelectionEvent(((GaussianEvent(1.0),),), name, float(self.mean_runs), float(shape))
        if math.isinf(self.epsilon):
            return with_max_runs(law, 1e-6, 1.0)
        return with_max_runs(law, float(self.delta), float(self.epsilon))

    def _check(self) -> None:
        _, private = private_step(self.estimator)
        check_workers(self.n_jobs)
        if isinstance(self.runs, str) and self.runs not in LAWS:
            listed = ", ".join(map(repr, LAWS))
            raise InvalidInputError(f"'runs' must be {listed} or a number. Got {self.runs!r}.")
        if not self.epsilon > 0:
            raise InvalidInputError(f"'epsilon' must be positive. Got {self.epsilon} instead.")
        if not 0 < self.delta < 1:
            raise InvalidInputError(
                f"'delta' must lie in (0, 1): a search has no pure epsilon. Got {self.delta}."
            )
        if not 0 <= self.validation_fraction < 1:
            raise InvalidInputError("'validation_fraction' must lie in [0, 1).")
        if self.validation_fraction and private.person_unit is not None:
            raise UnsupportedModeError(
                "'validation_fraction' is not offered for unit 'person': rows of one person would "
                "be both fitted and scored. Leave it 0."
            )
        if not 0 < self.score_share < 1:
            raise InvalidInputError("'score_share' must lie in (0, 1).")
        if self.resume is not None and not self.constant_time:
            raise InvalidInputError(
                "'resume' needs constant_time=True: a folder of K runs would reveal K."
            )

    @property
    def _relation(self) -> Relation:
        return Relation(private_step(self.estimator)[1].relation)

    def _folder(self, plan: SearchPlan, X: Any) -> SearchFolder | None:
        if self.resume is None:
            return None
        _, private = private_step(self.estimator)
        public = self._relation is Relation.REPLACE_ONE and private.person_unit is None
        settings = {
            "event": plan.event.to_dict(),
            "candidates": [repr(sorted(each.items())) for each in plan.settings],
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "unit": str(private.unit),
            "relation": str(private.relation),
            "estimator": type(self.estimator).__name__,
            "rows": n_rows(X) if public else None,
            "validation_fraction": float(self.validation_fraction),
        }
        return SearchFolder(self.resume, settings)

    def _pay(self, plan: SearchPlan, folder: SearchFolder | None) -> None:
        """Charge the whole search, unless a folder or the ledger says that it was charged."""
        _, private = private_step(self.estimator)
        words = {"unit": private.unit, "relation": private.relation}
        if folder is None:
            prepay(self.ledger, plan.event, **words)
            return
        folder.require_storable(
            with_budget(self.estimator, {}, epsilon=1.0, delta=0.5, ledger=None)
        )
        reference = folder.state["reference"]
        if folder.state["charged"]:
            if hasattr(self.ledger, "lines") and not _was_charged(self.ledger, reference):
                raise InvalidInputError(
                    f"'resume': the search in the folder {folder.path} was not paid for by this "
                    "ledger. Give another folder."
                )
            return
        folder.write()  # so that a charge that is made next can be found again
        if not _was_charged(self.ledger, reference):
            if hasattr(self.ledger, "noted"):
                self.ledger.charge(plan.event, reference=reference, **words)
            else:
                prepay(self.ledger, plan.event, **words)
        folder.write(charged=True)

    # After the charge -------------------------------------------------------------------------

    def _parts(self, X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
        """Return the rows to fit and the rows to score, with targets; another draw per run."""
        if not self.validation_fraction:
            return X, y, X, y
        is_secret = self._relation is Relation.ADD_OR_REMOVE_ONE
        held = RunLaw.split(n_rows(X), float(self.validation_fraction), is_secret=is_secret)
        fitted, scored = np.flatnonzero(~held), np.flatnonzero(held)
        return taken(X, fitted), taken(y, fitted), taken(X, scored), taken(y, scored)

    def _search(
        self, plan: SearchPlan, data: tuple[Any, Any], folder: SearchFolder | None
    ) -> tuple[_Run, list[Guarantee]]:
        law = RunLaw(plan.event)
        n_runs = (plan.event.max_runs or 1) if self.constant_time else law.number()
        choices = law.choices(len(plan.settings), n_runs).tolist()
        scores: list[float] = []
        if folder is not None:
            choices = folder.state["choices"] or choices
            scores = list(folder.state["scores"])
            folder.write(choices=choices)
        kept: dict[int, _Run] = {}
        guarantees: list[Guarantee] = []
        for run in folder.state["kept"] if folder is not None else ():
            kept[run] = _Run(scores[run], choices[run], folder.model(run))  # type: ignore[union-attr]
            guarantees.append(kept[run].model.guarantee_)
        step = max(1, effective_n_jobs(self.n_jobs))

        def one(run: int) -> _Run:
            return self._run(plan, choices[run], *data)

        # What a losing run warns of, by its own releases, would be one more output.
        quiet = warnings.catch_warnings(action="ignore")
        with quiet, Progress(console=Console(stderr=True), disable=not self.verbose) as bar:
            # A share of all runs would tell how many they are, which is hidden.
            total = n_runs if self.constant_time else None
            task = bar.add_task("Searching", total=total, completed=len(scores))
            while len(scores) < n_runs:
                batch = range(len(scores), min(len(scores) + step, n_runs))
                done = map_in_parallel(one, batch, n_jobs=self.n_jobs)
                fresh = _records(
                    dict(zip(batch, done, strict=True)), max(scores, default=-math.inf)
                )
                scores += [each.score for each in done]
                guarantees += [_guarantee_of(each.model) for each in done]
                kept.update(fresh)
                if folder is not None:
                    folder.keep({run: each.model for run, each in fresh.items()})
                    folder.write(scores=scores, kept=sorted(kept))
                bar.update(task, completed=len(scores))
        n_counted = law.number() if self.constant_time else n_runs  # [V6] K, after all runs
        return kept[max(run for run in kept if run < n_counted)], guarantees

    def _run(self, plan: SearchPlan, choice: int, X: Any, y: Any) -> _Run:
        """Fit one candidate and score it; what it draws is part of what the search has paid for."""
        X, y, X_scored, y_scored = self._parts(X, y)
        _, private = private_step(self.estimator)
        score = plan.score.event()
        receipt = Receipt(
            (*plan.events[choice], score), unit=private.unit, relation=private.relation
        )
        model = with_budget(
            self.estimator,
            plan.settings[choice],
            epsilon=plan.epsilon_each,
            delta=plan.delta_each,
            ledger=receipt,
        )
        model.fit(X, y) if y is not None else model.fit(X)
        _without_ledger(model)
        column = np.empty((0, 1))
        if n_rows(X_scored):  # there may be none where their number is secret
            scorer = scorer_for(self.estimator, self.scoring)
            column = row_scores(scorer, model, X_scored, y_scored)
        records = score_records(column, private, X_scored)
        total = float(records.release(ScoreSum(), plan.score, receipt)[0])
        return _Run(total / (records.public_rows or 1), choice, model)

    def _guarantee(self, plan: SearchPlan, guarantees: list[Guarantee]) -> Guarantee:
        _, private = private_step(self.estimator)
        spent = (
            selection_epsilon(plan.event, self.delta) if math.isfinite(self.epsilon) else math.inf
        )
        asked = float(self.epsilon)
        seen = (*guarantees[0].public, "settings that were tried", "law of the number of runs")
        found = Guarantee(
            epsilon=asked if asked * (1 - 1e-4) <= spent <= asked else spent,
            delta=float(self.delta),
            unit=Unit(private.unit),
            relation=self._relation,
            status=noise_status(),
            entry_bound=guarantees[0].entry_bound,
            whole_range=guarantees[0].whole_range,
            public=seen,
            events=(plan.event,),
        )
        conditions = [condition for each in guarantees for condition in each.conditions]
        conditions += [HIDDEN] if not self.constant_time else []
        conditions += [ROW_WISE] if self.scoring is not None else []
        return found.only_if(*dict.fromkeys(conditions))

    def _cost(self, plan: SearchPlan) -> SearchCost:
        deviation = math.sqrt(plan.score.variance())
        return SearchCost(
            plan.event,
            float(self.epsilon),
            float(self.delta),
            plan.epsilon_each,
            deviation,
            len(plan.settings),
        )

    def _keep(self, winner: _Run, plan: SearchPlan, guarantee: Guarantee) -> Self:
        self.best_estimator_ = winner.model
        self.best_params_ = dict(plan.settings[winner.choice])
        self.best_score_ = winner.score
        self.cost_ = self._cost(plan)
        self.guarantee_ = guarantee
        if hasattr(winner.model, "classes_"):
            self.classes_ = winner.model.classes_
        if hasattr(winner.model, "n_features_in_"):
            self.n_features_in_ = winner.model.n_features_in_
        if hasattr(winner.model, "feature_names_in_"):
            self.feature_names_in_ = winner.model.feature_names_in_
        return self


def _records(runs: dict[int, _Run], best: float) -> dict[int, _Run]:
    """Return the runs better than all before: one of them is the best of the first K.

    Of equal ones the first counts, as if each had drawn a number to break ties.
    """
    found = {}
    for run, each in runs.items():
        if each.score > best:
            found[run], best = each, each.score
    return found


def _was_charged(ledger: Any, reference: str) -> bool:
    if not hasattr(ledger, "lines"):
        return False
    return any(line.note.reference == reference for line in ledger.lines())


def _without_ledger(model: Any) -> None:
    prefix, _ = private_step(model)
    model.set_params(**{f"{prefix}ledger": None})


def _guarantee_of(model: Any) -> Guarantee:
    guarantee: Guarantee = private_step(model)[1].guarantee_
    return guarantee


def _stamp(model: Any, guarantee: Guarantee) -> None:
    """Assign the winner the guarantee of the search: its own would leave out the other runs."""
    step = private_step(model)[1]
    if step.guarantee_.status is Status.REFUTED:
        raise InvalidInputError("An estimator whose guarantee is refuted cannot be searched.")
    step.guarantee_ = guarantee


def n_rows(X: Any) -> int:
    """Return the number of rows of an array or a table."""
    if hasattr(X, "num_rows"):
        return int(X.num_rows)
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def taken(values: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of an array or a table."""
    if values is None:
        return None
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if type(values).__module__.startswith("pyarrow"):
        return values.take(rows)
    if type(values).__module__.startswith("polars"):
        return values[rows.tolist()]
    if isinstance(values, list | tuple):  # one odd record is no array with the others
        return [values[row] for row in rows.tolist()]
    return np.asarray(values)[rows]
