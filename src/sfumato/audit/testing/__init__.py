"""Contracts that every private estimator must keep, ours and yours.

`check_private_estimator` runs all of them; `PRIVATE_CHECKS` lists them for
``pytest.mark.parametrize``. `seeded_noise` is the one way to seed noise, and marks every guarantee
made under it as ``testing``. Read `contracts` first, then `taint`; `inspection` looks inside fitted
objects, `surroundings` at what outlives them.
"""

from sfumato.audit.testing.contracts import PRIVATE_CHECKS, PrivateCase, check_private_estimator
from sfumato.audit.testing.taint import taint_test
from sfumato.mechanisms.entropy import seeded as seeded_noise
