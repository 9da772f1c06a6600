"""Federated linear classifiers in two rounds: a common subspace, then averaged weights.

1. Every party releases its noisy second moment ``M_q + noise`` (or only its principal components);
   the coordinator adds the moments, weighted by the numbers of rows where these are public, and
   takes the top eigenvectors.
2. Every party trains a private linear classifier in that subspace; the weights are averaged.

Both releases of a party are calibrated together, so that they cost its epsilon and not more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.dataset_budget import DatasetBudget
from sfumato.accounting.receipt import prepay
from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated.messages import Arrays, Reply, Request, model_from, model_in, promised_in
from sfumato.guarantee import Guarantee, Relation
from sfumato.linear.fit import LinearPlan, fit_weights, split_weights
from sfumato.linear.private import PrivateLinearClassifier
from sfumato.moments.pca import top_eigenvectors
from sfumato.private import PrivateEstimator
from sfumato.sums import Records, SecondMoment
from sfumato.tables.cells import check_n_components

__all__ = ["LinearTask", "fit_classifier", "release_subspace"]

SUBSPACE, CLASSIFIER = "linear.subspace", "linear.classifier"
AGGREGATES = ("moments", "projectors")

Array = NDArray[np.float64]
Earlier = Callable[[str], Reply]  # refuses a phase that was not made
Rows = Callable[[], tuple[NDArray[Any], NDArray[Any]]]


@dataclass(frozen=True)
class LinearTask:
    """Train private linear classifiers in a common private subspace and average them.

    Parameters
    ----------
    name : str
        Name of the task; a party makes the releases of one name once.
    estimator : PrivateLinearClassifier
        Not fitted, with `n_components`, the bounds and the budget of a party.
    aggregate : {"moments", "projectors"}, default="moments"
        How the subspaces are put together. "moments": noisy second moments are added, the best by
        far, d(d+1)/2 numbers per party. "projectors": the mean of the projectors on the parties'
        components, d k numbers. Neither costs more privacy than the other.
    """

    name: str
    estimator: PrivateLinearClassifier
    aggregate: str = "moments"

    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise InvalidInputError(
                f"'aggregate' must be one of {AGGREGATES}. Got {self.aggregate!r} instead."
            )
        if not isinstance(self.estimator, PrivateLinearClassifier):
            raise InvalidInputError("'estimator' must be a PrivateLinearClassifier.")
        _require_plain_components(self.estimator)

    # Requests ---------------------------------------------------------------------------

    def subspace_request(self) -> Request:
        """Ask for the first release.

        Returns
        -------
        Request
            What every party is asked.
        """
        return Request(
            self.name, SUBSPACE, {"aggregate": self.aggregate}, {"estimator": self._pattern()}
        )

    def classifier_request(self, basis: Array) -> Request:
        """Ask for the second release, in the common subspace.

        Parameters
        ----------
        basis : ndarray of shape (n_features, n_components)
            The common subspace.

        Returns
        -------
        Request
            What every party is asked.
        """
        return Request(self.name, CLASSIFIER, arrays={"estimator": self._pattern(), "basis": basis})

    def _pattern(self) -> NDArray[np.uint8]:
        return model_in(clone(self.estimator).set_params(ledger=None, whiten=False))

    # At the coordinator -------------------------------------------------------------------

    def check_subspace(self, reply: Reply) -> None:
        """Raise unless a first release can be used.

        Parameters
        ----------
        reply : Reply
            What a party sent.
        """
        promised_in(reply, self.estimator)
        size = int(reply.fact("n_features"))
        if self.aggregate == "moments":
            reply.array("moment", (size * (size + 1) // 2,))
        else:
            reply.array("basis", (size, self._kept(size)))

    def check_classifier(self, reply: Reply) -> None:
        """Raise unless a second release can be used.

        Parameters
        ----------
        reply : Reply
            What a party sent.
        """
        promised_in(reply, self.estimator)
        _received_classifier(reply)

    def basis(self, replies: Sequence[Reply]) -> Array:
        """Put the parties' subspaces together.

        Parameters
        ----------
        replies : sequence of Reply
            What the parties sent.

        Returns
        -------
        ndarray of shape (n_features, n_components)
            The common subspace.
        """
        sizes = {int(reply.fact("n_features")) for reply in replies}
        if len(sizes) != 1:
            raise FederationError(f"The parties have rows of different lengths: {sorted(sizes)}.")
        size = sizes.pop()
        weights = _weights(replies)
        if self.aggregate == "moments":
            total = sum(
                w * _square(r.array("moment", (size * (size + 1) // 2,)), size)
                for w, r in zip(weights, replies, strict=True)
            )
            return top_eigenvectors(np.asarray(total), self._kept(size))[1]
        bases = [reply.array("basis", (size, self._kept(size))) for reply in replies]
        mean = sum(w * basis @ basis.T for w, basis in zip(weights, bases, strict=True))
        return top_eigenvectors(np.asarray(mean), self._kept(size))[1]

    def average(self, replies: Sequence[Reply]) -> PrivateLinearClassifier:
        """Average the weights of the parties' classifiers.

        Parameters
        ----------
        replies : sequence of Reply
            What the parties sent.

        Returns
        -------
        PrivateLinearClassifier
            The classifier of all parties.
        """
        models = [_received_classifier(reply) for reply in replies]
        found: PrivateLinearClassifier = models[0]
        for model in models[1:]:
            if not np.array_equal(model.classes_, found.classes_):
                raise FederationError("The parties' classifiers have different labels.")
        weights = _weights(replies)
        found.coef_ = np.average([m.coef_ for m in models], axis=0, weights=weights)
        found.intercept_ = np.average([m.intercept_ for m in models], axis=0, weights=weights)
        return found

    def guarantees(
        self, subspaces: Sequence[Reply], classifiers: Sequence[Reply]
    ) -> dict[str, Guarantee]:
        """Give what each party promises; a second release states what both cost together.

        Parameters
        ----------
        subspaces : sequence of Reply
            Replies of the first round.
        classifiers : sequence of Reply
            Replies of the second round.

        Returns
        -------
        dict of str to Guarantee
            Promises by party.
        """
        latest = {reply.party: reply for reply in (*subspaces, *classifiers)}
        return {name: Guarantee.from_dict(r.fact("guarantee")) for name, r in latest.items()}

    def _kept(self, n_features: int) -> int:
        return check_n_components(self.estimator.n_components, n_features)


def _weights(replies: Sequence[Reply]) -> Array:
    """Shares of rows where all numbers of rows are public, else equal shares.

    All noise is of one size and the signal of a party grows with its rows, so that this weighting
    of second moments has the largest ratio of signal to noise.
    """
    counts = [reply.facts.get("n_rows") for reply in replies]
    if any(count is None for count in counts):
        return np.full(len(replies), 1 / len(replies))
    numbers = np.array(counts, dtype=float)
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise FederationError("A party states an impossible number of rows.")
    return np.asarray(numbers / numbers.sum())


def _received_classifier(reply: Reply) -> PrivateLinearClassifier:
    model = model_from(reply.array("model", (None,), kinds="u"))
    if not isinstance(model, PrivateLinearClassifier) or not hasattr(model, "coef_"):
        raise FederationError(
            f"{reply.party} sent something that is not a fitted linear classifier."
        )
    if not (np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()):
        raise FederationError(f"{reply.party} sent weights that are not finite.")
    return model


# At the party ------------------------------------------------------------------------------------


def release_subspace(
    asked: PrivateEstimator,
    request: Request,
    data: Rows,
    ledger: Any,
    execution: Mapping[str, Any],  # noqa: ARG001 - every release has it
    earlier: Earlier,  # noqa: ARG001 - likewise
) -> tuple[dict[str, Any], Arrays]:
    """Release the noisy second moment of one party, or the components that it gives."""
    estimator = _plain_linear(asked)
    aggregate = request.settings.get("aggregate")
    if aggregate not in AGGREGATES:
        raise FederationError(f"'aggregate' must be one of {AGGREGATES}.")
    rows, labels = data()
    # Whatever the second round would refuse is refused before the first one is paid for.
    records, plan = _planned(estimator, rows, labels)
    assert plan.first is not None  # noqa: S101 - _planned has checked it
    words = {"unit": estimator.unit, "relation": estimator.relation}
    if isinstance(ledger, DatasetBudget):  # for both rounds: half a task is of no use
        ledger.ask(*(mechanism.event() for mechanism in plan.mechanisms()), **words)
    receipt = prepay(ledger, plan.first.event(), **words)  # charge, then draw
    noisy = records.release(SecondMoment(records.width), plan.first, receipt)
    facts = {
        "guarantee": estimator._guarantee(receipt).to_dict(),
        "n_features": rows.shape[1],
        **_public_count(estimator, len(rows)),
    }
    if aggregate == "moments":
        return facts, {"moment": noisy[np.triu_indices(len(noisy))]}
    kept = check_n_components(estimator.n_components, len(noisy))
    return facts, {"basis": np.ascontiguousarray(top_eigenvectors(noisy, kept)[1])}


def fit_classifier(
    asked: PrivateEstimator,
    request: Request,
    data: Rows,
    ledger: Any,
    execution: Mapping[str, Any],  # noqa: ARG001 - every release has it
    earlier: Earlier,
) -> tuple[dict[str, Any], Arrays]:
    """Train the private classifier of one party in the subspace that was sent."""
    pattern = _plain_linear(asked)
    first = earlier(SUBSPACE)  # the two releases were calibrated together, and in this order
    basis = _checked_basis(request.arrays.get("basis"))
    rows, labels = data()
    wanted = rows.shape[1], check_n_components(pattern.n_components, rows.shape[1])
    if basis.shape != wanted:
        raise FederationError(f"The basis has shape {basis.shape}; expected {wanted}.")
    records, plan = _planned(pattern, rows, labels)
    second = plan.after_projection()
    receipt = pattern.set_params(ledger=ledger)._prepay(*second.mechanisms())
    model = pattern.set_params(ledger=None)
    model.projection_ = basis
    mapped = records.mapped(second.row_map(records.width, basis))
    weights = fit_weights(mapped, second, receipt)
    model.coef_, model.intercept_ = split_weights(weights, intercept=plan.settings.intercept)
    model.guarantee_ = model._guarantee(receipt)
    model.guarantee_ = _of_both_releases(model, first)
    facts = {"guarantee": model.guarantee_.to_dict(), **_public_count(pattern, len(rows))}
    return facts, {"model": model_in(model)}


def _planned(
    estimator: PrivateLinearClassifier, rows: NDArray[Any], labels: NDArray[Any]
) -> tuple[Records, LinearPlan]:
    """Check what both rounds need, and divide the budget between them."""
    records, plan = estimator.plan(rows, labels)
    if plan.first is None:
        raise FederationError("As many components as features leave no subspace to be found.")
    return records, plan


def _of_both_releases(model: PrivateLinearClassifier, first: Reply) -> Guarantee:
    second: Guarantee = model.guarantee_
    events = (*Guarantee.from_dict(first.fact("guarantee")).events, *second.events)
    spent = epsilon_spent(events, second.delta, second.relation)
    return replace(second, epsilon=max(spent, second.epsilon or 0.0), events=events)


def _plain_linear(asked: PrivateEstimator) -> PrivateLinearClassifier:
    if not isinstance(asked, PrivateLinearClassifier):
        raise FederationError("The request contains no private linear classifier.")
    _require_plain_components(asked)
    if asked.whiten is not False:  # None leaves it to a rule, and `LinearTask` sends False
        raise FederationError("A federated linear classifier has whiten=False.")
    return asked


def _require_plain_components(estimator: PrivateLinearClassifier) -> None:
    if estimator.n_components is None or estimator.whiten is True:
        raise InvalidInputError("A federated linear classifier needs 'n_components', no 'whiten'.")


def _checked_basis(basis: NDArray[Any] | None) -> Array:
    """Accept only what cannot lengthen a row: it comes from elsewhere."""
    if basis is None or basis.ndim != 2 or basis.dtype.kind != "f":
        raise FederationError("The request contains no basis: a matrix of real numbers.")
    found = np.asarray(basis, dtype=np.float64)
    if not np.isfinite(found).all():
        raise FederationError("The basis contains numbers that are not finite.")
    if np.linalg.norm(found, ord=2) > 1 + 1e-9:
        raise FederationError("The basis lengthens rows; no singular value may be above 1.")
    return found


def _public_count(estimator: PrivateLinearClassifier, n_rows: int) -> dict[str, int]:
    is_public = Relation(estimator.relation) is Relation.REPLACE_ONE
    return {"n_rows": n_rows} if is_public else {}


def _square(triangle: Array, size: int) -> Array:
    matrix = np.zeros((size, size))
    matrix[np.triu_indices(size)] = triangle
    return np.asarray(matrix + np.triu(matrix, 1).T)
