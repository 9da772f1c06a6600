"""Membership mappings: autoencoders of inducing points, and transfer from a private source."""

from sfumato.mappings.autoencoder import MembershipAutoencoder
from sfumato.mappings.classifier import MembershipClassifier
from sfumato.mappings.mapping import MembershipMapping
from sfumato.mappings.transfer import PrivateTransferClassifier
from sfumato.mappings.wide import WideMembershipAutoencoder

__all__ = [
    "MembershipAutoencoder",
    "MembershipClassifier",
    "MembershipMapping",
    "PrivateTransferClassifier",
    "WideMembershipAutoencoder",
]
