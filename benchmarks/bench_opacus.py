"""A real run of Opacus on a CPU, charged to a ledger and certified; its epsilon beside Opacus' own.

python -m benchmarks.bench_opacus, in an environment that has opacus besides Sfumato; without it
the script says so and ends. A linear layer on the digits of scikit-learn, DP-SGD with Poisson
sampling, delta 1e-5, records added or removed. JSON: results/opacus.json.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.recording import timed, write
from sfumato import Guarantee, Ledger
from sfumato.privacy import epsilon_spent
from sfumato.privacy.events import RepeatedEvent, SubsampledGaussianEvent
from sfumato.privacy.guarantee import Relation
from sfumato.report.certificate import certificate_of, new_key, signed, verified, written

DELTA, EPOCHS, BATCH, CLIP, SEED = 1e-5, 15, 64, 1.0, 0
NOISES = (0.8, 1.1, 2.0)


def planned(n_rows: int, noise_multiplier: float) -> RepeatedEvent:
    """Return the event of the run: each step samples a record with probability 1 / batches."""
    batches = math.ceil(n_rows / BATCH)
    return RepeatedEvent(SubsampledGaussianEvent(noise_multiplier, 1 / batches), EPOCHS * batches)


def trained(rows: Any, labels: Any, noise_multiplier: float) -> tuple[Any, dict[str, Any]]:
    """Train privately; return the model, and what Opacus says it drew and cost."""
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import RDPAccountant

    net = torch.nn.Linear(rows.shape[1], 10)
    engine = PrivacyEngine(accountant="prv")
    model, optimizer, batches = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(rows, labels), batch_size=BATCH
        ),
        noise_multiplier=noise_multiplier,
        max_grad_norm=CLIP,
        poisson_sampling=True,
    )
    for _ in range(EPOCHS):
        for some, wanted in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(some), wanted).backward()
            optimizer.step()
    older = RDPAccountant()
    older.history = engine.accountant.history
    return net, {
        "drawn": [tuple(float(part) for part in each) for each in engine.accountant.history],
        "epsilon_opacus_prv": float(engine.get_epsilon(DELTA)),
        "epsilon_opacus_rdp": float(older.get_epsilon(DELTA)),
    }


def certified(noise_multiplier: float, folder: Path) -> dict[str, Any]:
    """Charge the run, train, certify the file of weights, and verify it."""
    import torch

    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16, y, test_size=0.3, random_state=SEED)
    rows, queries = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    event = planned(len(rows), noise_multiplier)
    words = {"unit": "record", "relation": "add_or_remove_one"}
    budget = Ledger(folder / "budget.db").create("digits", epsilon=50.0, delta=DELTA, **words)
    budget.noted(purpose="a run of Opacus", by="benchmark").charge(event, **words)
    net, found = trained(rows, torch.tensor(parts[2]), noise_multiplier)
    drawn = (event.event.noise_multiplier, event.event.sampling_probability, float(event.count))
    assert found.pop("drawn") == [drawn], "Opacus drew something else than was charged."
    torch.save(net.state_dict(), folder / "weights.pt")
    new_key(folder / "key.pem")
    epsilon = epsilon_spent([event], DELTA, Relation.ADD_OR_REMOVE_ONE)
    promise = Guarantee(epsilon=epsilon, delta=DELTA, events=(event,), **words)
    content = certificate_of(folder / "weights.pt", budget=budget, guarantee=promise)
    certificate = signed(content, folder / "key.pem")
    verified(written(certificate), file=folder / "weights.pt")
    with torch.no_grad():
        right = net(queries).argmax(1).numpy() == parts[3]
    names = ("epsilon", "delta", "unit", "relation", "status", "conditions", "subject")
    return {
        **event.event.to_dict(),
        "steps": event.count,
        "rows": len(rows),
        "epsilon": epsilon,
        **found,
        "accuracy": float(np.mean(right)),
        "certificate": {name: certificate[name] for name in names},
    }


def main() -> None:
    """Run at three noise levels."""
    if importlib.util.find_spec("opacus") is None:
        print("Skipped: opacus is not installed.")
        sys.exit(0)
    warnings.simplefilter("ignore")
    import opacus

    numbers = []
    for noise in NOISES:
        with tempfile.TemporaryDirectory() as folder:
            found, seconds = timed(lambda n=noise, f=folder: certified(n, Path(f)))
        numbers.append(found | seconds)
    write("opacus", numbers, seed=SEED, delta=DELTA, opacus=opacus.__version__)


if __name__ == "__main__":
    main()
