"""Stand-ins for noise and release that show the linear map behind a sampler."""

import numpy as np


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


def rounded(u: np.ndarray, h: float) -> np.ndarray:
    """``max(0, u)`` with a parabola within h of its kink."""
    return np.where(np.abs(u) < h, (u + h) ** 2 / (4 * h), np.maximum(0, u))
