"""Membership mappings: autoencoders of inducing points."""

from sfumato.mappings.autoencoder import MembershipAutoencoder, WideMembershipAutoencoder
from sfumato.mappings.classifier import MembershipClassifier
from sfumato.mappings.mapping import MembershipMapping

__all__ = [
    "MembershipAutoencoder",
    "MembershipClassifier",
    "MembershipMapping",
    "WideMembershipAutoencoder",
]
