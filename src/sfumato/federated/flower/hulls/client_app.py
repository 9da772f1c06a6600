"""What a party runs for federated hulls."""

from sfumato.federated import hulls
from sfumato.federated.flower.adapter import party_app

__all__ = ["app"]

app = party_app(frozenset({hulls.FIT, hulls.DISTANCES}))
