"""Kernel affine hulls written down as printed: equations (33) to (63), no shortcut anywhere.

Slow on purpose. It shares no code with the library and is the oracle of its tests and benchmarks.
"""

import numpy as np


class LiteralHull:
    """Definition 1 for one subspace dimension."""

    def __init__(self, Y, n):
        N, p = Y.shape
        covariance = np.cov(Y, rowvar=False).reshape(p, p)
        _, eigenvectors = np.linalg.eigh(covariance)
        self.Y, self.n = Y, n
        self.P = eigenvectors[:, ::-1][:, :n].T
        self.X = Y @ self.P.T
        self.theta_inverse = np.linalg.inv(np.cov(self.X, rowvar=False).reshape(n, n))
        self.K = self.kernel(self.X)
        self.tau = 2 * np.sum(Y**2) / (p * N)
        e = self.tau / 4
        for _ in range(500):
            new = self.R(e, self.tau)
            if abs(new - e) <= 1e-13 * self.tau:
                break
            e = new
        self.regularization = e + self.tau
        self.inverse = np.linalg.inv(self.K + self.regularization * np.eye(N))

    def kernel(self, X):
        difference = X[:, None, :] - self.X[None, :, :]
        form = np.einsum(
            "ijk,kl,ijl->ij", difference, self.theta_inverse, difference, optimize=True
        )
        return np.exp(-form / (2 * self.n))

    def R(self, e, tau):  # noqa: N802
        N = len(self.Y)
        fitted = self.K @ np.linalg.solve(self.K + (e + tau) * np.eye(N), self.Y)
        return np.mean((self.Y - fitted) ** 2)

    def h(self, y):
        return self.kernel(y @ self.P.T) @ self.inverse

    def weights(self, y):
        h = self.h(y)
        return h / h.sum(axis=1, keepdims=True)

    def image(self, y):
        return self.weights(y) @ self.Y


class LiteralDeepHull:
    """Definitions 3 and 4."""

    def __init__(self, Y, n, L):
        self.layers = [LiteralHull(Y, n - layer) for layer in range(L)]

    def layer_images(self, y):
        images = []
        for layer in self.layers:
            images.append(layer.image(images[-1] if images else y))
        return images

    def layer_distances(self, y):
        return np.stack([np.linalg.norm(y - m, axis=1) for m in self.layer_images(y)], axis=1)

    def distance(self, y):
        return self.layer_distances(y).min(axis=1)


class LiteralClassifier:
    """Definitions 5 to 8, with the partition given."""

    def __init__(self, groups, n, L):
        self.hulls = [[LiteralDeepHull(Y, n, L) for Y in branches] for branches in groups]

    def distances(self, y):
        return np.stack(
            [np.min([hull.distance(y) for hull in branches], axis=0) for branches in self.hulls],
            axis=1,
        )

    def matching_score(self, y):
        squares = self.distances(y) ** 2
        return np.exp(-squares / squares.sum(axis=1, keepdims=True))
