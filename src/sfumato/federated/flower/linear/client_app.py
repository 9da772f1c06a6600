"""What a party runs for federated linear classifiers."""

from sfumato.federated import linear
from sfumato.federated.flower.adapter import party_app

__all__ = ["app"]

app = party_app(frozenset({linear.SUBSPACE, linear.CLASSIFIER}))
