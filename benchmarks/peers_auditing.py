"""Membership attacks of other libraries: losses in an .npz file, JSON out.

They need other versions of their dependencies than Sfumato's tests use, so that this file runs
under a Python of its own, named by the environment variable SFUMATO_PEERS_PYTHON, and imports
nothing of Sfumato::

    PYTHON benchmarks/peers_auditing.py data.npz

The file holds the losses, labels and predicted chances of members and of others, each in two
halves: `fit_*` for attacks that learn, and `test_*` on which all are judged. A library that cannot
be imported is told as such.
"""

from __future__ import annotations

import json
import sys
import time
import types
import warnings
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score


def main() -> None:
    warnings.simplefilter("ignore")
    data = dict(np.load(sys.argv[1]))
    attacks = {
        "adversarial-robustness-toolbox": black_box,
        "privacy-meter": population_metric,
    }
    found = {}
    for name, attack in attacks.items():
        try:
            attack(data)  # loads its libraries
            found[name] = {"version": version(name), **attack(data)}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(found))


def black_box(data: dict[str, Any]) -> dict[str, Any]:
    """Learn a logistic regression on the loss, the attack of ART that thresholds it."""
    from art.attacks.inference.membership_inference import MembershipInferenceBlackBox
    from art.estimators.classification import BlackBoxClassifier

    class Known(BlackBoxClassifier):
        """A classifier whose losses were computed before: rows are their numbers."""

        def compute_loss(self, x: Any, *_: Any, **__: Any) -> Any:
            return self.losses[np.asarray(x)[:, 0].astype(int)]

    order = ["fit_members", "fit_others", "test_members", "test_others"]
    losses = [data[f"{name}_losses"] for name in order]
    chances = np.concatenate([data[f"{name}_chances"] for name in order])
    labels = np.concatenate([data[f"{name}_labels"] for name in order])
    n_classes = chances.shape[1]
    model = Known(lambda x: chances[np.asarray(x)[:, 0].astype(int)], (1,), n_classes)
    model.losses = np.concatenate(losses)
    stops = np.cumsum([0, *map(len, losses)])
    rows = [np.arange(a, b, dtype=float)[:, None] for a, b in pairwise(stops)]

    def area(own: list[Any]) -> tuple[float, float]:
        start = time.process_time()
        attack = MembershipInferenceBlackBox(model, input_type="loss", attack_model_type="lr")
        attack.fit(rows[0], own[0], rows[1], own[1])
        told = [attack.infer(rows[i], own[i], probabilities=True).ravel() for i in (2, 3)]
        truth = np.repeat([1, 0], list(map(len, told)))
        found = float(roc_auc_score(truth, np.concatenate(told)))
        return found, time.process_time() - start

    # It learns on the label beside the loss; the same label for all leaves the loss alone.
    alone, seconds = area([np.zeros(len(each), dtype=int) for each in losses])
    with_labels, _ = area([labels[a:b] for a, b in pairwise(stops)])
    return {"auc": alone, "auc_with_labels": with_labels, "cpu_s": seconds}


def population_metric(data: dict[str, Any]) -> dict[str, Any]:
    """Threshold the loss at quantiles of the population, privacy-meter's population attack."""
    for name in ("tensorflow", "torch", "opacus"):  # imported by its models, which are not used
        sys.modules.setdefault(name, types.SimpleNamespace(GradSampleModule=None))
    from privacy_meter.dataset import Dataset
    from privacy_meter.hypothesis_test import linear_itp_threshold_func
    from privacy_meter.information_source import InformationSource
    from privacy_meter.information_source_signal import ModelLoss
    from privacy_meter.metric import PopulationMetric
    from privacy_meter.model import Model

    class Known(Model):
        def get_loss(self, losses: Any, *_: Any, **__: Any) -> Any:
            return losses

        get_logits = get_grad = get_intermediate_outputs = None

    splits = {
        "train": data["test_members_losses"],
        "test": data["test_others_losses"],
        "population": data["fit_others_losses"],
    }
    dataset = Dataset({k: {"x": v, "y": v} for k, v in splits.items()}, "x", "y")
    start = time.process_time()
    source = InformationSource([Known(None, None)], [dataset])
    metric = PopulationMetric(
        source,
        source,
        [ModelLoss()],
        linear_itp_threshold_func,
        reference_model_to_train_split_mapping=[(0, "population", "x", "y")],
    )
    metric.prepare_metric()
    (result,) = metric.run_metric(np.linspace(0, 1, 1001))
    false = result.fp / (result.fp + result.tn)
    true = result.tp / (result.tp + result.fn)
    places = np.argsort(false, kind="stable")
    area = np.trapezoid(np.sort(true[places]), false[places])
    return {"auc": float(area), "cpu_s": time.process_time() - start}


if __name__ == "__main__":
    main()
