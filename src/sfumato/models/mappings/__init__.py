"""Membership mappings: autoencoders of inducing points."""

from sfumato.models.mappings.autoencoder import (
    MembershipAutoencoder,
    WideMembershipAutoencoder,
)
from sfumato.models.mappings.classifier import MembershipClassifier
from sfumato.models.mappings.mapping import MembershipMapping
