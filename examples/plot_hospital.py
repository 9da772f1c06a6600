"""
Who is readmitted? The hospital
===============================

The table has 5,000 invented patients. A private additive model has one curve per column, and you
may show every curve: curves, bands and importances use released numbers only and cost nothing more.
"""

import matplotlib.pyplot as plt
import pyarrow as pa

from sfumato import PrivateAdditiveClassifier, TableBounds
from sfumato.datasets import load

hospital = load("hospital")
train, test = (pa.table(hospital.table(rows)) for rows in hospital.parts())
public = {
    "age": (0, 110),
    "ward": ["cardiology", "medicine", "orthopaedics", "surgery"],
    "emergency": bool,
    "diabetes": bool,
    "earlier_stays": (0, 20),
    "days": (0, 60),
    "readmitted": ["no", "yes"],
}
bounds = TableBounds.from_dict(public, target="readmitted")
model = PrivateAdditiveClassifier(epsilon=1.0, delta=1e-5, bounds=bounds).fit(train)
print(f"right: {(model.predict(test) == test['readmitted'].to_numpy()).mean():.0%}")
print(model.guarantee_)

# %%
# What each column adds to the score of "yes", with bands that cover the fit without noise.

figure, axes = plt.subplots(2, 3, figsize=(11, 5.5), layout="constrained")
for axis, each in zip(axes.flat, model.explain().curves, strict=False):
    places = each.values if each.is_number else [str(value) for value in each.values]
    axis.errorbar(places, each.curve[-1], each.band[-1], fmt=".-" if each.is_number else "o")
    axis.set(title=each.name, xmargin=0.1)
plt.show()
