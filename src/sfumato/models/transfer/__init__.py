"""Transfer from private sources to a target with few labels, and multi-task learning with them."""

from sfumato.models.transfer.checks import TransferSource
from sfumato.models.transfer.classifier import (
    PrivateTransferClassifier,
)
