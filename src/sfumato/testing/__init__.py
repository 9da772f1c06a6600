"""Contracts that every private estimator must keep, ours and yours.

`check_private_estimator` runs all of them; `PRIVATE_CHECKS` lists them for
``pytest.mark.parametrize``. `seeded_noise` is the one way to seed noise, and marks every guarantee
made under it as ``testing``.
"""

from sfumato.mechanisms.entropy import seeded as seeded_noise
from sfumato.testing.case import PrivateCase
from sfumato.testing.contracts import PRIVATE_CHECKS, check_private_estimator
from sfumato.testing.taint import taint_test

__all__ = [
    "PRIVATE_CHECKS",
    "PrivateCase",
    "check_private_estimator",
    "seeded_noise",
    "taint_test",
]
