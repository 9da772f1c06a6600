"""What tests look at: exact sums as doubles."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.sums.grid import SecretSum, revealed


def doubles(total: Any) -> np.ndarray:
    return revealed(total) if isinstance(total, SecretSum) else total.averaged()
