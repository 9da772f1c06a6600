"""Stand-ins for noise and release that show the linear map behind a sampler."""

import numpy as np

from sfumato.mechanisms import GaussianProcessMechanism


class GivenNoise:
    """Noise from a list, added without a grid; remembers the coordinates it was added to."""

    def __init__(self, draws):
        self.draws = list(draws)
        self.seen = []

    def draw(self, size):
        taken, self.draws = self.draws[:size], self.draws[size:]
        return taken

    def add(self, coordinate, noise):
        self.seen.append(coordinate)
        return coordinate + noise


class GivenRelease(GaussianProcessMechanism):
    """Answers a release with coordinates from a list; remembers the exact ones."""

    def __new__(cls, make_noise):
        mechanism = object.__new__(cls)
        object.__setattr__(mechanism, "make_noise", make_noise)
        object.__setattr__(mechanism, "seen", [])
        return mechanism

    def __init__(self, make_noise):
        super().__init__(1.0, 1.0)

    def release(self, value, *, ledger):
        self.seen.append(np.array(value))
        return value + self.make_noise(value.shape)


def basis_noise(number):
    """Noise that is 1 at one coordinate: the release then shows a column of the factor."""

    def make(shape):
        noise = np.zeros(shape)
        noise.flat[number] = 1.0
        return noise

    return make


def rounded(u: np.ndarray, h: float) -> np.ndarray:
    """``max(0, u)`` with a parabola within h of its kink."""
    return np.where(np.abs(u) < h, (u + h) ** 2 / (4 * h), np.maximum(0, u))
