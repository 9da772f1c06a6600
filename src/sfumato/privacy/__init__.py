"""Accounting: what releases cost, alone and together, and the ledger that remembers it.

Nothing here ever sees a row of data; everything is a function of data-free events.
"""

from sfumato.privacy.attacker import Attacker, best_attacker
from sfumato.privacy.calibrate import calibrate
from sfumato.privacy.composition import (
    compose,
    epsilon_spent,
    rdp_epsilon,
)
from sfumato.privacy.distributions import pld_delta, pld_epsilon
from sfumato.privacy.entry import record_level_guarantee
from sfumato.privacy.gaussian import (
    delta_from_mu,
    epsilon_from_mu,
    mu_from_budget,
)
from sfumato.privacy.group import for_persons, group_epsilon
from sfumato.privacy.interchange import to_dp_event
from sfumato.privacy.objective import objective_delta
