"""Mechanisms: the only place where noise is drawn.

Each is a frozen record of public numbers. `release` charges the ledger first, then draws from the
operating system's entropy the rounding of exact real noise (see `sfumato.mechanisms.sampling`).
"""

from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.column_pairs import (
    SecondParentsMechanism,
    SpanningTreeMechanism,
)
from sfumato.mechanisms.entropy import fault_of_entropy
from sfumato.mechanisms.entry import EntryMechanism
from sfumato.mechanisms.exponential import ExponentialMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.laplace import LaplaceMechanism
from sfumato.mechanisms.process import GaussianProcessMechanism
from sfumato.mechanisms.quantiles import QuantileMechanism
from sfumato.mechanisms.response import RandomizedResponseMechanism
from sfumato.mechanisms.shares import GaussianShareMechanism
