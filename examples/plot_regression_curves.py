"""
Regression with curves that may be shown
========================================

How long will a patient stay? An additive regression has one curve per column. The bands show what
the noise of the release does to each curve.
"""

import matplotlib.pyplot as plt
import pyarrow as pa

from sfumato import PrivateAdditiveRegressor, TableBounds
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
}
bounds = TableBounds.from_dict(public, target="days")
model = PrivateAdditiveRegressor(epsilon=1.0, delta=1e-6, bounds=bounds).fit(train)
print(f"R2 on new patients: {model.score(test, test['days'].to_numpy()):.2f}")
print(model.guarantee_)

# %%
# What each column adds to the days of a stay.

figure, axes = plt.subplots(2, 3, figsize=(11, 5.5), layout="constrained")
for axis, each in zip(axes.flat, model.explain().curves, strict=False):
    places = each.values if each.is_number else [str(value) for value in each.values]
    axis.errorbar(places, each.curve[-1], each.band[-1], fmt=".-" if each.is_number else "o")
    axis.set(title=each.name, xmargin=0.1)
axes.flat[-1].remove()
plt.show()
