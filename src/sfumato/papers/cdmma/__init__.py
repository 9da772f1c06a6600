"""CDMMA, membership-mapping autoencoders: the paper's systems under its names, and its tables.

`CDMMA` is the autoencoder (Algorithm 2), `MembershipTransferClassifier` the private transfer
(Algorithms 5 and 6, (79) to (87)), `MembershipFunctions` and `student_t_membership` the degrees of
membership. ``sfumato reproduce cdmma --table 1 --quick`` runs a table.
"""

from sfumato.models.mappings import MembershipAutoencoder as CDMMA  # noqa: N814 - as printed
from sfumato.papers.cdmma.membership import MembershipFunctions, student_t_membership
from sfumato.papers.cdmma.systems import MembershipTransferClassifier
