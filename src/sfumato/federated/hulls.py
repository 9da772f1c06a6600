"""Federated hulls: every party fits its own class hulls on its own private rows (101)-(104).

Two ways to serve, both of one training round:

- "models": the private models travel, and the coordinator merges them (Remark 6);
- "distances": models stay at home; query points travel, each party answers with its distances to
  its classes, and the coordinator takes the smallest; a class that a party does not have counts as
  infinitely far (Remark 5).

An engine gives one function, ``ask(request) -> replies``. Replies may be missing (a party is
away), refused (it said no) or useless; a round goes on with the others and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import FederationError, InvalidInputError, SfumatoError
from sfumato.federated.federation import ONE_PARTY_EACH, InThisProcess
from sfumato.federated.messages import Reply, Request, model_from
from sfumato.federated.party import Party
from sfumato.federated.schema import pack
from sfumato.privacy.composition import parallel
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.synthetic.hull_classifier import HullAnswers

Ask = Callable[[Request], list[Reply]]
SERVING = ("models", "distances")


@dataclass(frozen=True)
class HullTask:
    """Train the hulls of all parties and serve them as one classifier.

    Parameters
    ----------
    name : str
        Name of the task; a party makes the releases of one name once.
    estimator : PrivateAffineHullClassifier
        Not fitted; what every party fits, with the bounds and the budget.
    serve : {"models", "distances"}, default="models"
        What leaves a party: its private model, or distances to query points.
    """

    name: str
    estimator: HullAnswers
    serve: str = "models"

    def __post_init__(self) -> None:
        if self.serve not in SERVING:
            raise InvalidInputError(f"'serve' must be one of {SERVING}. Got {self.serve!r}.")
        if not isinstance(self.estimator, HullAnswers):
            raise InvalidInputError("'estimator' must be a private classifier by hulls.")

    def request(self) -> Request:
        """Return the one training request.

        Returns
        -------
        Request
            What every party is asked.
        """
        settings = {"serve": self.serve, "estimator": pack(self.estimator, {})}
        return Request(self.name, "hulls.fit", settings)


class RemoteHulls:
    """The global classifier whose hulls stay with the parties (104).

    Parameters
    ----------
    task : str
        Name of the trained task.
    classes : ndarray
        The labels that some party has.
    ask : callable
        Carries a `Request` to the parties and gives their replies.

    Notes
    -----
    The query points are seen by every party. Distances to a private model cost no budget.
    """

    def __init__(self, task: str, classes: NDArray[Any], ask: Ask) -> None:
        self.task = task
        self.classes_ = classes
        self._ask = ask

    def distances(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``min_q`` of the parties' distances from each row to each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One distance a class; infinite where no party has it.
        """
        queries = np.asarray(X, dtype=np.float64)
        request = Request(
            self.task, "hulls.distances", {"queries": "queries"}, {"queries": queries}
        )
        replies = [reply for reply in self._ask(request) if reply.refusal is None]
        if not replies:
            raise FederationError("No party answered the query.")
        nearest = np.full((len(queries), len(self.classes_)), np.inf)
        for reply in replies:
            labels = np.asarray(reply.fact("classes"))
            found = reply.array("distances", (len(queries), len(labels)))
            columns = np.searchsorted(self.classes_, labels)
            nearest[:, columns] = np.minimum(nearest[:, columns], found)
        return nearest

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest hull of all parties.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        return np.asarray(self.classes_[np.argmin(self.distances(X), axis=1)])


@dataclass(frozen=True)
class Round:
    """One round: what was asked, who answered, who did not and why, and how long it took."""

    phase: str
    answered: tuple[str, ...]
    refused: dict[str, str]
    seconds: float

    def __str__(self) -> str:
        words = [f"{self.phase}: {len(self.answered)} answered in {self.seconds:.1f} s"]
        return "; ".join(words + [f"without {name}: {why}" for name, why in self.refused.items()])


@dataclass(frozen=True)
class FederatedResult:
    """What a federated task gives.

    Parameters
    ----------
    model : estimator
        The global one.
    guarantees : dict of str to Guarantee
        What each party's releases promise.
    total : Guarantee
        What they promise together, where each person has records at one party only.
    rounds : tuple of Round
        What happened.
    """

    model: Any
    guarantees: dict[str, Guarantee]
    total: Guarantee
    rounds: tuple[Round, ...] = field(default=(), repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return guarantees and rounds as plain JSON.

        Returns
        -------
        dict
            What the command line prints.
        """
        return {
            "total": self.total.to_dict(),
            "sentence": str(self.total),
            "parties": {name: each.to_dict() for name, each in self.guarantees.items()},
            "rounds": [
                {
                    "phase": each.phase,
                    "answered": list(each.answered),
                    "refused": each.refused,
                    "seconds": round(each.seconds, 3),
                }
                for each in self.rounds
            ],
        }


def run_task(
    task: HullTask, ask: Ask, *, min_parties: int = 1, conditions: tuple[str, ...] = ()
) -> FederatedResult:
    """Run a task and make the global model; refusals and useless replies are left out."""
    request, start = task.request(), time.monotonic()
    asked = task.estimator
    models: dict[str, Any] = {}  # or the classes of those that stay with their parties
    guarantees: dict[str, Guarantee] = {}
    refused: dict[str, str] = {}
    for reply in sorted(ask(request), key=lambda each: each.party):
        name, number = reply.party, 1
        while name in guarantees or name in refused:  # a name that a second party uses too
            number += 1
            name = f"{reply.party} #{number}"
        if reply.refusal is not None:
            refused[name] = reply.refusal
            continue
        try:
            promised = Guarantee.from_dict(reply.fact("guarantee"))
            if (promised.unit, promised.relation) != (Unit(asked.unit), Relation(asked.relation)):
                raise FederationError(f"{name} promises for another unit or relation.")
            if task.serve == "models":
                models[name] = _received_model(reply, asked, promised)
            else:
                models[name] = list(reply.fact("classes"))
            guarantees[name] = promised.only_if(*conditions)
        except SfumatoError as error:
            refused[name] = f"useless reply: {error}"
        except (AttributeError, KeyError, TypeError, ValueError):
            refused[name] = "useless reply: its facts cannot be read."
    done = Round(request.phase, tuple(guarantees), refused, time.monotonic() - start)
    if len(guarantees) < min_parties:
        raise FederationError(
            f"Round '{request.phase}': {len(guarantees)} of at least {min_parties} parties gave a "
            f"usable reply. {done}"
        )
    total = parallel(*guarantees.values(), condition=ONE_PARTY_EACH)
    if task.serve == "distances":
        classes = np.unique([label for each in models.values() for label in each])
        return FederatedResult(RemoteHulls(task.name, classes, ask), guarantees, total, (done,))
    first, *others = models.values()
    model = first.merge(*others)
    model.guarantee_ = total
    return FederatedResult(model, guarantees, total, (done,))


def _received_model(reply: Reply, asked: HullAnswers, promised: Guarantee) -> HullAnswers:
    """Rebuild a party's model and check that it is what was asked for."""
    model = model_from(reply.array("model", (None,), kinds="u"))
    if type(model) is not type(asked) or not hasattr(model, "classifier_"):
        raise FederationError(f"{reply.party} sent something that is not a fitted hull classifier.")
    if (model.bounds, model.unit) != (asked.bounds, asked.unit):
        raise FederationError(f"{reply.party} sent a model of other bounds or another unit.")
    if model.guarantee_ != promised:
        raise FederationError(f"{reply.party} states another guarantee than its model.")
    return model


def simulate(
    parties: Iterable[Party],
    task: HullTask,
    *,
    min_parties: int = 1,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> FederatedResult:
    """Run a federated task in this process.

    Parameters
    ----------
    parties : iterable of Party
        Who takes part.
    task : HullTask
        What is learned.
    min_parties : int, default=1
        A round with fewer usable replies fails.
    n_jobs : int, optional
        Threads in which parties answer, see joblib.
    verbose : bool, default=False
        Show a progress bar for every round.

    Returns
    -------
    FederatedResult
        The global model, the guarantee of each party, and their total by parallel composition,
        on condition that each person has records at one party only.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, EntryHullClassifier
    >>> from sfumato.federated import HullTask, make_parties, simulate
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> hulls = EntryHullClassifier(
    ...     n_layers=1, epsilon=16.0, delta=1e-5, bounds=bounds, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parties = make_parties(X, y, folder, scenario="one-class-each", bounds=bounds)
    ...     found = simulate(parties, HullTask("digits", hulls))
    >>> bool(found.model.score(X, y) > 0.9), len(found.guarantees)
    (True, 10)
    """
    carrier = InThisProcess(parties, n_jobs)

    def ask(request: Request) -> list[Reply]:
        asked = dict.fromkeys(carrier.names, request)
        return list(carrier.ask(asked, progress=request.phase if verbose else None).values())

    return run_task(task, ask, min_parties=min_parties, conditions=tuple(carrier.conditions))
