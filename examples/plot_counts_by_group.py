"""
Counts by group, with error bars
================================

How many patients did each ward admit, and how old were they? Both answers are charged to one
budget; the bars contain the figure of the table itself with 95 % confidence.
"""

import matplotlib.pyplot as plt
import pyarrow as pa

from sfumato import Ledger, TableBounds, release_counts, release_mean
from sfumato.datasets import load

patients = pa.table(load("hospital").table())
wards = ["cardiology", "medicine", "orthopaedics", "surgery"]
bounds = TableBounds.from_dict({"ward": wards, "age": (0, 110)})
budget = Ledger().create("patients", epsilon=1.0)

counts = release_counts(patients, "ward", bounds=bounds, epsilon=0.2, ledger=budget)
ages = release_mean(patients, "age", by="ward", bounds=bounds, epsilon=0.2, ledger=budget)
print(counts, ages, counts.guarantee_, sep="\n\n")

# %%
# The counts and means, with their intervals.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for axis, found, value in zip(axes, (counts, ages), ("count", "mean"), strict=True):
    rows = found.to_pandas().dropna(subset=["ward"])
    reach = abs(rows[["low", "high"]].T.to_numpy() - rows[value].to_numpy())
    axis.bar(rows["ward"], rows[value], yerr=reach, capsize=4, color="#7a9cc6")
axes[0].set(title="patients, epsilon 0.2")
axes[1].set(title="mean age in years, epsilon 0.2", ylim=(40, 80))
plt.show()
