"""One payment is one draw, also where a process is forked while noise is drawn."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import LedgerError
from sfumato.ledger.receipt import prepay
from sfumato.mechanisms import GaussianMechanism
from sfumato.mechanisms.sampling import rounded_noise


def test_a_child_that_was_forked_during_a_draw_releases_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    children: list[int] = []

    def forking(*arguments: Any) -> np.ndarray:
        children.append(os.fork())
        return rounded_noise(*arguments)

    monkeypatch.setattr("sfumato.mechanisms.base.rounded_noise", forking)
    mechanism = GaussianMechanism(1.0, 2.0)
    ending = 1
    try:
        released = mechanism.release(np.zeros(3), ledger=prepay(None, mechanism.event()))
    except LedgerError:
        ending = 7
    finally:
        if children == [0]:  # the child; tests go on in the parent alone
            os._exit(ending)
    assert released.shape == (3,)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
