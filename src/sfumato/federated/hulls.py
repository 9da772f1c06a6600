"""Federated hulls: every party fits its own class hulls on its own private rows (101)-(104).

Two ways to serve, both of one training round:

- "models": the private models travel, and the coordinator merges them (Remark 6);
- "distances": models stay at home; query points travel, each party answers with its distances to
  its classes, and the coordinator takes the smallest; a class that a party does not have counts as
  infinitely far (Remark 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated.messages import Arrays, Reply, Request, model_from, model_in
from sfumato.federated.schema import packed
from sfumato.privacy.guarantee import Guarantee
from sfumato.synthetic.hull_classifier import PrivateAffineHullClassifier

FIT, DISTANCES = "hulls.fit", "hulls.distances"
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
    estimator: PrivateAffineHullClassifier
    serve: str = "models"

    kind: ClassVar[str] = "hulls"

    def __post_init__(self) -> None:
        if self.serve not in SERVING:
            raise InvalidInputError(f"'serve' must be one of {SERVING}. Got {self.serve!r}.")
        if not isinstance(self.estimator, PrivateAffineHullClassifier):
            raise InvalidInputError("'estimator' must be a PrivateAffineHullClassifier.")

    def request(self) -> Request:
        """Return the one training request.

        Returns
        -------
        Request
            What every party is asked.
        """
        settings = {"serve": self.serve, "estimator": packed(self.estimator, {})}
        return Request(self.name, FIT, settings)

    def combine(
        self, replies: Sequence[Reply], ask: Callable[[Request], list[Reply]]
    ) -> PrivateAffineHullClassifier | RemoteHulls:
        """Make the global classifier out of what the parties sent.

        Parameters
        ----------
        replies : sequence of Reply
            What the parties sent.
        ask : callable
            Sends a request to all parties and gives their replies.

        Returns
        -------
        PrivateAffineHullClassifier or RemoteHulls
            The merged hulls, or a handle that asks the parties.
        """
        if self.serve == "models":
            models = [received_model(reply, self.estimator) for reply in replies]
            return models[0].merge(*models[1:])
        classes = np.unique([label for reply in replies for label in reply.fact("classes")])
        return RemoteHulls(self.name, classes, ask)


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

    def __init__(
        self, task: str, classes: NDArray[Any], ask: Callable[[Request], list[Reply]]
    ) -> None:
        self.task = task
        self.classes_ = classes
        self._ask = ask

    def distances(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the distance from each row to the nearest hull of each class.

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
        request = Request(self.task, DISTANCES, {"queries": "queries"}, {"queries": queries})
        replies = self._ask(request)
        return min_distances(replies, self.classes_, len(queries))

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

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose label is found.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        float
            The share of labels that are right.
        """
        return float(np.mean(self.predict(X) == np.asarray(y)))


# At the party ------------------------------------------------------------------------------------


def fit_hulls(
    asked: PrivateAffineHullClassifier,
    data: Callable[[], tuple[NDArray[Any], NDArray[Any]]],
    ledger: Any,
    execution: Mapping[str, Any],
) -> tuple[dict[str, Any], Arrays]:
    """Fit the private hulls of one party; its ledger is charged by the estimator."""
    model = asked.set_params(ledger=ledger, **execution).fit(*data())
    facts = {"guarantee": model.guarantee_.to_dict(), "classes": model.classes_.tolist()}
    return facts, {"model": model_in(model)}


def distances(queries: NDArray[np.float64], released: Reply) -> tuple[dict[str, Any], Arrays]:
    """Answer query points from the stored private model: no new release."""
    model = model_from(released.arrays["model"])
    found = model.distances(queries).astype(np.float32)
    return {"classes": model.classes_.tolist()}, {"distances": found}


# At the coordinator ------------------------------------------------------------------------------


def received_model(
    reply: Reply, pattern: PrivateAffineHullClassifier
) -> PrivateAffineHullClassifier:
    """Rebuild a party's model and check that it is what was asked for."""
    model = model_from(reply.array("model", (None,), kinds="u"))
    if not isinstance(model, PrivateAffineHullClassifier) or not hasattr(model, "classifier_"):
        raise FederationError(f"{reply.party} sent something that is not a fitted hull classifier.")
    if (model.bounds, model.unit) != (pattern.bounds, pattern.unit):
        raise FederationError(f"{reply.party} sent a model of other bounds or another unit.")
    if model.guarantee_ != Guarantee.from_dict(reply.fact("guarantee")):
        raise FederationError(f"{reply.party} states another guarantee than its model.")
    return model


def min_distances(
    replies: Sequence[Reply], classes: NDArray[Any], n_queries: int
) -> NDArray[np.float64]:
    """``min_q`` of the parties' distances, class by class; infinite where a party has no hull."""
    nearest = np.full((n_queries, len(classes)), np.inf)
    for reply in replies:
        labels = np.asarray(reply.fact("classes"))
        found = reply.array("distances", (n_queries, len(labels)))
        columns = np.searchsorted(classes, labels)
        nearest[:, columns] = np.minimum(nearest[:, columns], found)
    return nearest
