"""A linear classifier by JAX Privacy: Poisson batches, clipped gradients, one added or removed."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from answering import answer
from jax_privacy import clipped_grad
from jax_privacy.accounting.accountants import PldAccountantConfig
from jax_privacy.accounting.analysis import DpsgdTrainingAccountant
from jax_privacy.accounting.calibrate import calibrate_noise_multiplier
from jax_privacy.batch_selection import CyclicPoissonSampling
from jax_privacy.noise_addition import gaussian_privatizer
from steps import CLIP, EPOCHS, SHARE, chosen


def classification(
    *, epsilon: float, delta: float, X: np.ndarray, y: np.ndarray, X_test: np.ndarray
) -> Callable[[], np.ndarray]:
    classes, labels = np.unique(y, return_inverse=True)
    n_steps = round(EPOCHS / SHARE)

    def noise(n_rows: int) -> float:
        found: float = calibrate_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=delta,
            accountant=DpsgdTrainingAccountant(
                PldAccountantConfig(value_discretization_interval=1e-3)
            ),
            batch_sizes=round(n_rows * SHARE),
            num_updates=n_steps,
            num_samples=n_rows,
        )
        return found

    def loss(weights: tuple[jax.Array, jax.Array], row: jax.Array, label: jax.Array) -> jax.Array:
        scores = row @ weights[0] + weights[1]
        return optax.softmax_cross_entropy_with_integer_labels(scores, label).mean()

    noises = {}

    def train(
        rows: np.ndarray, truth: np.ndarray, length: float
    ) -> Callable[[np.ndarray], np.ndarray]:
        batch = len(rows) * SHARE
        if len(rows) not in noises:
            noises[len(rows)] = noise(len(rows))
        gradient = clipped_grad(loss, l2_clip_norm=CLIP, normalize_by=batch, batch_argnums=(1, 2))
        privatizer = gaussian_privatizer(
            stddev=gradient.sensitivity() * noises[len(rows)],
            prng_key=int(np.random.SeedSequence().generate_state(1)[0] // 2),
        )
        weights = jnp.zeros((rows.shape[1], len(classes))), jnp.zeros(len(classes))
        # Batches have one shape: rows without weight fill them up.
        widest = int(batch + 8 * np.sqrt(batch))

        @jax.jit
        def step(weights, state, some, wanted, padding):  # type: ignore[no-untyped-def]
            found = gradient(weights, some, wanted, is_padding_example=padding)
            found, state = privatizer.update(found, state)
            return jax.tree.map(lambda w, g: w - length * g, weights, found), state

        state = privatizer.init(weights)
        for places in CyclicPoissonSampling(SHARE, n_steps).batch_iterator(len(rows)):
            filled = np.zeros(widest, dtype=int)
            filled[: len(places)] = places
            padding = np.arange(widest) >= len(places)
            weights, state = step(weights, state, rows[filled], truth[filled], padding)
        return lambda new: np.asarray((new @ weights[0] + weights[1]).argmax(axis=1))

    length = chosen(train, X, labels)
    return lambda: classes[train(X, labels, length)(X_test)]


if __name__ == "__main__":
    answer("jax-privacy", {"classification": classification})
