"""CDMMA, membership-mapping autoencoders: the paper's systems under its names, and its tables."""

from sfumato.models.mappings import (
    MembershipAutoencoder as CDMMA,  # noqa: N814 - the paper's name
)
from sfumato.papers.cdmma.membership import MembershipFunctions, student_t_membership
from sfumato.papers.cdmma.systems import MembershipTransferClassifier
