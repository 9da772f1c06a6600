"""Learning among parties that share no rows: sums over parties, and private hulls.

Read `messages` (what travels, and what a party stores of it), `schema` (what may be asked), `party`
(the terms of a party, and its answers), `federation` (sums over parties as records), `secure` (sums
of which a coordinator sees the total only), `hulls`, `simulation` (rows dealt to parties),
`party_file` and `flower` (deployments).
"""

from sfumato.federated.federation import Federation, SumRound
from sfumato.federated.hulls import FederatedResult, simulate
from sfumato.federated.party import Party, Terms
from sfumato.federated.party_file import read_party
from sfumato.federated.simulation import make_parties, spread
