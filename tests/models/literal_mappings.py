"""Algorithms 1 to 4 as printed, step by step: slow, and independent of the fast algebra.

Only the k-means is the library's, since its centroids are a choice and not a formula, and M goes
down by one where the printed list would stand still.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sfumato.models.mappings import centroids

NU = 2.1
Layers = list[tuple[np.ndarray, dict[str, Any]]]


def kernel(x: np.ndarray, a: np.ndarray, w: np.ndarray, variance: float) -> np.ndarray:
    """Equation (17), pair by pair."""
    away = x[:, None, :] - a[None, :, :]
    return variance * np.exp(-0.5 * np.sum(w * away**2, axis=2))


def tau(x: np.ndarray, a: np.ndarray, w: np.ndarray, variance: float) -> float:
    """Equation (54)."""
    Kaa = kernel(a, a, w, variance) + 1e-10 * variance * np.eye(len(a))
    Kxa = kernel(x, a, w, variance)
    trace = len(x) * variance - np.trace(np.linalg.solve(Kaa, Kxa.T @ Kxa))
    return float(trace / (NU + len(a) - 2))


def weights(x: np.ndarray) -> np.ndarray:
    """Equation (53); a constant input gets weight 0."""
    ranges = x.max(axis=0) - x.min(axis=0)
    return np.array([1 / r**2 if r > 0 else 0.0 for r in ranges])


def clusters(x: np.ndarray, n_points: int, seed: int) -> np.ndarray:
    """Equation (51); around the mean, as the library calls it, so that no bit differs."""
    middle = x.mean(axis=0)
    return centroids(x - middle, n_points, seed) + middle


def algorithm_1(
    x: np.ndarray, Y: np.ndarray, max_points: int, *, kappa: float, seed: int, width: int
) -> dict[str, Any]:
    w = weights(x)
    M = max_points
    while tau(x, clusters(x, M, seed), w, 1.0) < kappa and M > 1:
        M = min(math.ceil(0.9 * M), M - 1)
    a = clusters(x, M, seed)
    smoothing = tau(x, a, w, 1.0)
    variance = 1.0
    data_variance = Y.var(axis=0, ddof=1).sum() / width if len(Y) > 1 else 0.0
    if 0 < smoothing < data_variance:
        variance = data_variance / smoothing
    Kaa = kernel(a, a, w, variance) + 1e-10 * variance * np.eye(M)
    Kxa = kernel(x, a, w, variance)
    level = max(tau(x, a, w, variance), 0.0)
    beta = 1.0
    for _ in range(1000):
        alpha = np.linalg.solve(Kxa.T @ Kxa + level * Kaa + Kaa / beta, Kxa.T @ Y)
        error = np.sum((Y - Kxa @ alpha) ** 2) / (width * len(x))
        last, beta = beta, 1 / error
        if abs(beta - last) <= 1e-10 * beta:
            break
    alpha = np.linalg.solve(Kxa.T @ Kxa + level * Kaa + Kaa / beta, Kxa.T @ Y)
    return {"alpha": alpha, "a": a, "M": M, "variance": variance, "w": w, "beta": beta}


def prediction(model: dict[str, Any], x: np.ndarray) -> np.ndarray:
    """Equation (60)."""
    return kernel(x, model["a"], model["w"], model["variance"]) @ model["alpha"]


def algorithm_2(Y: np.ndarray, n: int, max_points: int, n_layers: int, seed: int = 0) -> Layers:
    layers: Layers = []
    for number in range(n_layers):
        n_here = max(n - number, 1)
        values, vectors = np.linalg.eigh(np.cov(Y, rowvar=False).reshape(Y.shape[1], -1))
        P = vectors[:, np.argsort(values)[::-1][:n_here]].T  # one PCA per layer, as printed
        x = Y @ P.T if not layers else outputs(layers, Y)[-1] @ P.T
        model = algorithm_1(x, Y, max_points, kappa=0.1, seed=seed + number, width=Y.shape[1])
        max_points = model["M"]
        layers.append((P, model))
    return layers


def outputs(layers: Layers, rows: np.ndarray) -> list[np.ndarray]:
    """Equation (63)."""
    found = []
    current = rows
    for P, model in layers:
        current = prediction(model, current @ P.T)
        found.append(current)
    return found


def filtered(layers: Layers, rows: np.ndarray) -> np.ndarray:
    """Equations (64) and (65)."""
    candidates = np.array(outputs(layers, rows))
    errors = np.sum((rows - candidates) ** 2, axis=2)
    return candidates[errors.argmin(axis=0), np.arange(len(rows))]
