"""Transfer from a private source to a target with few labels."""

from sfumato.transfer.classifier import PrivateTransferClassifier

__all__ = ["PrivateTransferClassifier"]
