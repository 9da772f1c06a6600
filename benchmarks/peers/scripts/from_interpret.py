"""DP-EBM of InterpretML beside our additive models; run by a Python that has interpret-core.

python from_interpret.py FOLDER: reads train.csv, test.csv and task.json, prints scores as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import interpret
import numpy as np
import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score

folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text())
frames = [pd.read_csv(folder / name, keep_default_na=False) for name in ("train.csv", "test.csv")]
targets = [frame.pop("__target") for frame in frames]
types = ["continuous" if name in task["ranges"] else "nominal" for name in frames[0].columns]
places = {i: tuple(task["ranges"].get(name, (0, 0))) for i, name in enumerate(frames[0].columns)}
bounds = {i: ends for i, ends in places.items() if types[i] == "continuous"}
options = {"feature_types": types, "privacy_bounds": bounds, "delta": task["delta"]}
found = []
for epsilon in task["epsilons"]:
    scores, cpu = [], time.process_time()
    for _ in range(task["runs"]):
        if task["regression"]:
            model = DPExplainableBoostingRegressor(
                epsilon=epsilon,
                privacy_target_min=task["target"][0],
                privacy_target_max=task["target"][1],
                **options,
            )
            model.fit(frames[0], targets[0])
            scores.append(r2_score(targets[1], model.predict(frames[1])))
        else:
            model = DPExplainableBoostingClassifier(epsilon=epsilon, **options)
            model.fit(frames[0], targets[0])
            if task["accuracy"]:
                scores.append(float(np.mean(model.predict(frames[1]) == targets[1])))
            else:
                chances = model.predict_proba(frames[1])[:, 1]
                scores.append(roc_auc_score(targets[1] == model.classes_[1], chances))
    seconds = (time.process_time() - cpu) / task["runs"]
    found.append({"epsilon": epsilon, "scores": scores, "cpu_s": round(seconds, 2)})
print(json.dumps({"version": interpret.__version__, "numbers": found}))
