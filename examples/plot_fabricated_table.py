"""
A fabricated table, and how good it is
======================================

Fabricated rows behave like the table and can be handed over. The picture compares correlations and
one margin of the fabricated rows with the table: a look that only its owner may take.
"""

import matplotlib.pyplot as plt
import pandas as pd

from sfumato import Fabricator, TableBounds
from sfumato.datasets import load

patients = pd.DataFrame(load("hospital").table())
public = {
    "age": {"type": "int64", "lower": 0, "upper": 110},
    "ward": ["cardiology", "medicine", "orthopaedics", "surgery"],
    "diabetes": bool,
    "earlier_stays": {"type": "int64", "lower": 0, "upper": 20},
    "days": {"type": "int64", "lower": 0, "upper": 60},
    "readmitted": ["no", "yes"],
}
bounds = TableBounds.from_dict(public, target="readmitted")
made = Fabricator(epsilon=1.0, delta=1e-6, bounds=bounds, random_state=0).fit_fabricate(patients)
print(made.head())

numbers = ["age", "earlier_stays", "days"]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for axis, rows, title in zip(axes, (patients, made), ("table", "fabricated"), strict=False):
    axis.imshow(rows[numbers].astype(float).corr(), vmin=-0.3, vmax=0.3, cmap="RdBu")
    axis.set(title=f"correlations, {title}", xticks=range(3), yticks=range(3))
    axis.set(xticklabels=numbers, yticklabels=numbers if title == "table" else [])
axes[2].hist([patients["days"], made["days"]], bins=15, label=["table", "fabricated"])
axes[2].set(title="days")
axes[2].legend()
plt.show()
