"""Mechanisms: the only place where noise is drawn.

Each is a frozen record of public numbers. `release` charges the ledger first, then draws from the
operating system's entropy the rounding of exact real noise. Read `base.py` (charge, grid, tape),
`sampling.py` and `entropy.py` (the draws), then the laws: `gaussian.py`, `laplace.py`,
`exponential.py`, `objective.py`.
"""

from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.exponential import ExponentialMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism, GaussianProcessMechanism
from sfumato.mechanisms.laplace import EntryMechanism, LaplaceMechanism
