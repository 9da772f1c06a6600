"""Federated hulls: every party fits its own class hulls on its own private rows (101)-(104).

The private models are merged: the nearest hull of all parties decides, and a class that a party
does not have counts as infinitely far (Remarks 5 and 6). Parties answer in this process; a
deployment releases sums instead, to which `PrivateAffineHullClassifier` can be fitted
(`Federation`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sfumato.exceptions import FederationError, InvalidInputError, SfumatoError
from sfumato.federated.federation import ONE_PARTY_EACH
from sfumato.federated.party import Party
from sfumato.privacy.composition import parallel
from sfumato.privacy.guarantee import Guarantee
from sfumato.synthetic.hull_classifier import HullAnswers


@dataclass(frozen=True)
class FederatedResult:
    """What a simulation of parties with hulls gives.

    Parameters
    ----------
    model : estimator
        The global one.
    guarantees : dict of str to Guarantee
        What each party's releases promise.
    total : Guarantee
        What they promise together, where each person has records at one party only.
    refused : dict of str to str
        Parties that were left out, each with its reason.
    """

    model: Any
    guarantees: dict[str, Guarantee]
    total: Guarantee
    refused: dict[str, str]

    def __str__(self) -> str:
        words = [f"{len(self.guarantees)} parties"]
        words += [f"without {name}: {why}" for name, why in self.refused.items()]
        return "; ".join([*words, f"together: {self.total}"])


def simulate(parties: Iterable[Party], hulls: HullAnswers) -> FederatedResult:
    """Fit private hulls at every party and merge them, in this process.

    Parameters
    ----------
    parties : iterable of Party
        Who takes part.
    hulls : EntryHullClassifier or PrivateAffineHullClassifier
        Not fitted; what every party fits, with the bounds and the budget.

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
    >>> from sfumato.federated import make_parties, simulate
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(lower=0.0, upper=16.0, labels=range(10))
    >>> hulls = EntryHullClassifier(
    ...     n_layers=1, epsilon=16.0, delta=1e-5, bounds=bounds, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parties = make_parties(X, y, folder, scenario="one-class-each", bounds=bounds)
    ...     found = simulate(parties, hulls)
    >>> bool(found.model.score(X, y) > 0.9), len(found.guarantees)
    (True, 10)
    """
    if not isinstance(hulls, HullAnswers):
        raise InvalidInputError("'hulls' must be a private hull classifier.")

    def fit(party: Party) -> Any:
        try:
            return party.fit_hulls(hulls)
        except SfumatoError as error:
            return str(error)

    listed = sorted(parties, key=lambda party: party.name)
    found = {party.name: fit(party) for party in listed}
    if len(found) != len(listed):
        raise InvalidInputError("Each party needs a name of its own.")
    refused = {name: each for name, each in found.items() if isinstance(each, str)}
    models = {name: each for name, each in found.items() if not isinstance(each, str)}
    if not models:
        said = "; ".join(f"{name}: {why}" for name, why in refused.items())
        raise FederationError(f"No party agreed. {said}")
    guarantees = {
        party.name: models[party.name].guarantee_.only_if(*party.conditions)
        for party in listed
        if party.name in models
    }
    first, *others = models.values()
    model = first.merge(*others)
    model.guarantee_ = parallel(*guarantees.values(), condition=ONE_PARTY_EACH)
    return FederatedResult(model, guarantees, model.guarantee_, refused)
