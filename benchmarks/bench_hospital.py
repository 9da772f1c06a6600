"""The hospital of the README: the usual classifier at three budgets, and one without privacy.

python -m benchmarks.bench_hospital: 3,500 rows to learn from, 1,500 held out, five runs each with
fresh noise, delta 1e-5, one record replaced, bounds as a person would know them. JSON:
results/hospital.json.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.recording import write
from sfumato import PrivateAdditiveClassifier, TableBounds, TableEncoder
from sfumato.datasets import load

RUNS = 5
PUBLIC = {
    "age": (0, 110),
    "sex": ["female", "male"],
    "ward": ["cardiology", "medicine", "orthopaedics", "surgery"],
    "emergency": bool,
    "smoker": bool,
    "diabetes": bool,
    "pressure": (60, 260),
    "creatinine": {"lower": 20, "upper": 1500, "log": True, "missing": True},
    "earlier_stays": (0, 20),
    "days": (0, 60),
    "readmitted": ["no", "yes"],
}


def main() -> None:
    hospital = load("hospital")
    train, test = (pa.table(hospital.table(rows)) for rows in hospital.parts())
    bounds = TableBounds.from_dict(PUBLIC, target="readmitted")
    truth, numbers = test["readmitted"].to_numpy(), []
    for epsilon in (0.3, 1.0, 3.0):
        found = [
            PrivateAdditiveClassifier(epsilon=epsilon, delta=1e-5, bounds=bounds)
            .fit(train)
            .predict(test)
            for _ in range(RUNS)
        ]
        right = [float((each == truth).mean()) for each in found]
        numbers.append({"model": "PrivateAdditiveClassifier", "epsilon": epsilon, **told(right)})
    encoder = TableEncoder(bounds)
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    plain.fit(encoder.fit_transform(train), train["readmitted"].to_numpy())
    right = [float((plain.predict(encoder.transform(test)) == truth).mean())]
    numbers.append({"model": "logistic regression", "epsilon": None, **told(right)})
    numbers.append({"model": "always no", "epsilon": None, **told([float((truth == "no").mean())])})
    write("hospital", numbers, seed=None)


def told(right: list[float]) -> dict[str, float]:
    return {
        "accuracy": round(float(np.mean(right)), 4),
        "std": round(float(np.std(right)), 4),
        "runs": len(right),
    }


if __name__ == "__main__":
    main()
