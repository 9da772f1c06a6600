"""diffprivlib beside our additive models; run by a Python that has it and an older scikit-learn.

python tables_diffprivlib.py FOLDER: reads train.csv, test.csv and task.json, prints scores as JSON.
Numbers are scaled to their public ranges, categories are one-hot; all else is its default.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from pathlib import Path

import diffprivlib
import numpy as np
import pandas as pd
from diffprivlib.models import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
task = json.loads((folder / "task.json").read_text())
frames = [pd.read_csv(folder / name, keep_default_na=False) for name in ("train.csv", "test.csv")]
targets = [frame.pop("__target") for frame in frames]


def encoded(frame: pd.DataFrame) -> np.ndarray:
    columns = []
    for name in frame.columns:
        if name in task["ranges"]:
            low, high = task["ranges"][name]
            columns.append(np.clip((frame[name].to_numpy(float) - low) / (high - low), 0, 1))
        else:  # the categories are public
            both = sorted({str(value) for each in frames for value in each[name]})
            columns += [(frame[name].astype(str) == value).to_numpy(float) for value in both]
    return np.column_stack(columns)


train, test = map(encoded, frames)
found = []
for epsilon in task["epsilons"]:
    scores, cpu = [], time.process_time()
    for _ in range(task["runs"]):
        if task["regression"]:
            model = LinearRegression(
                epsilon=epsilon, bounds_X=(0, 1), bounds_y=tuple(map(float, task["target"]))
            ).fit(train, targets[0])
            scores.append(r2_score(targets[1], model.predict(test)))
        else:
            norm = math.sqrt(len(frames[0].columns))
            model = LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=200)
            model.fit(train, targets[0])
            if task["accuracy"]:
                scores.append(float(np.mean(model.predict(test) == targets[1])))
            else:
                chances = model.predict_proba(test)[:, 1]
                scores.append(roc_auc_score(targets[1] == model.classes_[1], chances))
    seconds = (time.process_time() - cpu) / task["runs"]
    found.append({"epsilon": epsilon, "scores": scores, "cpu_s": round(seconds, 2)})
print(json.dumps({"version": diffprivlib.__version__, "numbers": found}))
