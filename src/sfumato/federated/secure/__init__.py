"""Secure sums: a coordinator learns the total of the parties' numbers, and nothing else of them.

The protocol is that of Bonawitz et al. (2017) against an active coordinator: masks for every pair
of parties cancel in the total, a mask of one's own hides a late reply, and both can be rebuilt
from shares when parties vanish. `sfumato.federated.secure.member` is a party's side,
`sfumato.federated.secure.coordinator` the other one; neither knows who carries the messages.
"""

from sfumato.federated.secure.agreement import Agreement
from sfumato.federated.secure.coordinator import (
    SumCoordinator,
    secure_sum,
)
from sfumato.federated.secure.identity import Identity
from sfumato.federated.secure.member import Journal, Member
