"""A linear classifier by Opacus: Poisson batches, clipped gradients, a record added or removed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from answering import answer
from opacus import PrivacyEngine
from steps import CLIP, EPOCHS, SHARE, chosen
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def classification(
    *, epsilon: float, delta: float, X: np.ndarray, y: np.ndarray, X_test: np.ndarray
) -> Callable[[], np.ndarray]:
    classes, labels = np.unique(y, return_inverse=True)

    def train(
        rows: np.ndarray, truth: np.ndarray, length: float
    ) -> Callable[[np.ndarray], np.ndarray]:
        model = torch.nn.Linear(rows.shape[1], len(classes))
        data = TensorDataset(torch.tensor(rows, dtype=torch.float32), torch.tensor(truth))
        network, steps, batches = PrivacyEngine().make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=length),
            data_loader=DataLoader(data, batch_size=round(len(rows) * SHARE)),
            target_epsilon=epsilon,
            target_delta=delta,
            epochs=EPOCHS,
            max_grad_norm=CLIP,
        )
        for _ in range(EPOCHS):
            for some, wanted in batches:
                steps.zero_grad()
                torch.nn.functional.cross_entropy(network(some), wanted).backward()
                steps.step()
        return lambda new: (
            model(torch.tensor(new, dtype=torch.float32)).argmax(dim=1).detach().numpy()
        )

    length = chosen(train, X, labels)
    return lambda: classes[train(X, labels, length)(X_test)]


if __name__ == "__main__":
    answer("opacus", {"classification": classification})
