"""Privacy: what releases promise and cost, alone and together.

Nothing here ever sees a row of data; everything is a function of data-free events. Read `events.py`
and `guarantee.py`, then the curves (`gaussian.py`, `renyi.py`, `distributions.py`), their sums
(`composition.py`, `losses.py` in bounded size, `filters.py` for adaptive analysts) and
`attacker.py`.
"""

from sfumato.privacy.attacker import Attacker, best_attacker
from sfumato.privacy.composition import (
    compose,
    epsilon_spent,
    for_persons,
    group_epsilon,
    record_level_guarantee,
)
from sfumato.privacy.gaussian import delta_from_mu, epsilon_from_mu, mu_from_budget
