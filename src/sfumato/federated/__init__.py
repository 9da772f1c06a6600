"""Learning among parties that share no rows: sums over parties, and private hulls."""

from sfumato.federated.carrying import SumRound
from sfumato.federated.coordination import FederatedResult
from sfumato.federated.hulls import HullTask, RemoteHulls
from sfumato.federated.party import Party
from sfumato.federated.party_file import read_party
from sfumato.federated.records import Federation
from sfumato.federated.scenarios import spread
from sfumato.federated.simulation import (
    make_parties,
    make_table_parties,
    simulate,
)
from sfumato.federated.sums_task import SumsTask
from sfumato.federated.terms import Terms
