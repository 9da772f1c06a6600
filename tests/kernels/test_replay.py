"""Functions that are recorded once: their answers are those of plain calls."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import array_api_strict
import numpy as np
import pytest

from sfumato.kernels import replay
from sfumato.kernels.replay import PLAIN_CALLS, Replayed


def doubled(x: Any) -> Any:
    return x * 2 + 1


def test_elsewhere_a_function_is_called_as_it_is() -> None:
    for reference in (np.zeros(1), array_api_strict.zeros(1)):
        repeated = Replayed(doubled, reference)
        for i in range(5):
            found = repeated(np.full(3, float(i)))
            assert type(found) is type(reference)
            np.testing.assert_array_equal(np.asarray(found), doubled(np.full(3, float(i))))


class _Recorder:
    """Plays the part of CUDA graphs: a replay computes again, into the place of the answer."""

    def __init__(self, *, fails: str) -> None:
        self.fails, self.replays, self.repeated = fails, 0, None
        self.cuda = SimpleNamespace(CUDAGraph=lambda: self, graph=self.graph)

    @contextmanager
    def graph(self, _: Any, capture_error_mode: str) -> Any:
        assert capture_error_mode == "thread_local"
        if self.fails == "to record":
            raise RuntimeError
        yield

    def replay(self) -> None:
        self.replays += 1
        wrong = 1.0 if self.fails == "to repeat" else 0.0
        self.repeated._answer[:] = doubled(self.repeated._argument) + wrong


class _There(np.ndarray):
    def copy_(self, other: Any) -> None:
        self[:] = other


@pytest.mark.parametrize("fails", ["", "to record", "to repeat"])
def test_it_is_recorded_after_some_calls_or_never(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = _Recorder(fails=fails)
    monkeypatch.setattr(replay, "is_accelerated", lambda reference: True)
    monkeypatch.setattr(replay, "import_module", lambda name: recorder)
    monkeypatch.setattr(replay, "like", lambda reference, x: np.array(x).view(_There))
    recorder.repeated = repeated = Replayed(doubled, np.zeros(1))
    for i in range(6):
        found = repeated(np.full(3, float(i)))
        np.testing.assert_array_equal(found, doubled(np.full(3, float(i))))
    tried = fails != "to record"
    assert recorder.replays == tried + (0 if fails else 6 - PLAIN_CALLS)


def test_on_a_gpu_the_answers_are_the_same() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rows = torch.rand((500, 20), dtype=torch.float64, device="cuda")
    repeated = Replayed(lambda w: torch.exp(rows @ w).T @ rows, rows)
    for i in range(6):
        weights = np.random.default_rng(i).normal(size=(20, 3))
        expected = torch.exp(rows @ torch.as_tensor(weights, device="cuda")).T @ rows
        torch.testing.assert_close(repeated(weights), expected, rtol=1e-12, atol=0)
