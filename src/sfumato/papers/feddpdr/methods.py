"""The four methods of the paper, as printed and mended, and the machine without privacy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.base import clone

from sfumato.federated import Federation, Party, Terms
from sfumato.models.linear import PrivateLinearClassifier
from sfumato.models.solvers import HuberHingeLoss
from sfumato.papers.feddpdr.objective import LinearObjective
from sfumato.papers.feddpdr.printed import PrintedDPML, PrintedFedDPDR, pairs_of
from sfumato.tables.bounds import Bounds

Rows = NDArray[np.float64]
Predict = Callable[[Rows], NDArray[Any]]
DELTA, LAMBDA, STEPS = 1e-4, 0.01, 20
LABELS = [0, 1]
METHODS = ("Non-Priv", "DPML", "DPDR-DPML", "FedDPDR-DPML")
ALIGNED = "FedDPDR-DPML, aligned"
RAW, UNIT, MENDED = "as printed, raw rows", "as printed, unit rows", "mended, unit rows"


def fit_federation(
    parties: Sequence[tuple[ArrayLike, ArrayLike]], estimator: Any, *, trust: str = "secure"
) -> Any:
    """Fit an estimator to sums over parties: FedDPDR-DPML mended.

    One noisy second moment of all rows gives the components, and each step of a joint descent is a
    noisy sum, instead of means of eigenvectors and of machines.

    Parameters
    ----------
    parties : sequence of (X, y)
        Rows and labels of each party.
    estimator : PrivateLinearClassifier
        Not fitted; any estimator that learns from sums, with its bounds and budget.
    trust : {"secure", "noisy"}, default="secure"
        What a coordinator can see; of three or more parties one may collude with it. "secure" needs
        the extra `federated`.

    Returns
    -------
    estimator
        Fitted, in this process.

    Privacy
    -------
    That of the estimator, on condition that each person has records at one party only.
    """
    pairs = pairs_of(parties)
    colluding = 1 if trust == "secure" and len(pairs) > 2 else 0
    terms = Terms(max_epsilon=np.inf, max_delta=1.0, colluding=colluding)
    given: dict[str, Any] = {"bounds": estimator._reader.bounds, "relation": estimator.relation}
    with tempfile.TemporaryDirectory() as folder:
        there = [
            Party.of_rows(f"party-{i}", X, y, f"{folder}/{i}", terms=terms)
            for i, (X, y) in enumerate(pairs)
        ]
        return estimator.fit(Federation(there, trust=trust, colluding=colluding, **given))


def learn(
    method: str,
    parties: Sequence[tuple[Rows, NDArray[Any]]],
    way: str,
    epsilon: float,
    components: int,
) -> list[Predict]:
    """Learn by one method: one rule for the federation, else one for each party asked.

    Parties that learn alone: the first where all are alike, else each of them.
    """
    if method == "Non-Priv":
        return [not_private(parties, components)]
    bounds = Bounds(lower=0.0, upper=1.0, labels=LABELS)  # raw rows: the paper's assumption breaks
    if way != RAW:
        bounds = Bounds(norm=1.0, labels=LABELS)
    given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "bounds": bounds}
    if method in ("FedDPDR-DPML", ALIGNED):
        if way == MENDED:
            # Without components: they would cost budget, and noise grows by sums here, not by k.
            model = PrivateLinearClassifier(n_steps=STEPS, **given)
            return [fit_federation(parties, model).predict]
        reading = "aligned" if method == ALIGNED else "printed"
        return [PrintedFedDPDR(components, aggregation=reading, **given).fit(parties).predict]
    kept = None if method == "DPML" else components
    asked = parties if len({len(y) for _, y in parties}) > 1 else parties[:1]
    if way == MENDED:
        own = PrivateLinearClassifier(n_components=kept, n_steps=STEPS, **given)
        return [clone(own).fit(*party).predict for party in asked]
    return [PrintedDPML(kept, **given).fit(*party).predict for party in asked]


def not_private(parties: Sequence[tuple[Rows, NDArray[Any]]], components: int) -> Predict:
    """Principal components and a Huber machine of the largest party, without noise."""
    X, y = max(parties, key=lambda party: len(party[1]))
    width = X.shape[1]
    basis = eigh(X.T @ X, subset_by_index=[max(0, width - components), width - 1])[1]
    machine = LinearObjective(HuberHingeLoss(), X @ basis, 2.0 * y - 1)
    weights = machine.minimise(np.zeros(basis.shape[1]), LAMBDA * len(y), 1e-9 * len(y))
    return lambda rows: (rows @ (basis @ weights) > 0).astype(int)
