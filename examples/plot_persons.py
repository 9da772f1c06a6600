"""
People with several rows
========================

Patients come back, so one person is many rows. ``unit="person"`` protects all of them together;
what that costs in accuracy depends on how many rows of a person are used.
"""

import matplotlib.pyplot as plt
import numpy as np

from sfumato import Bounds, PrivateLinearClassifier

rng = np.random.default_rng(0)
patients = rng.integers(0, 3000, size=12_000)
health = rng.normal(size=3000)[patients]
visits = (health[:, None] + rng.normal(size=(12_000, 5))).clip(-3, 3)
ill = (health + 0.5 * rng.normal(size=12_000) > 0).astype(int)
train = patients < 2000

most, accuracy = [1, 2, 4, 8], []
for person_rows in most:
    bounds = Bounds(lower=-3.0, upper=3.0, labels=[0, 1], person_rows=person_rows)
    model = PrivateLinearClassifier(epsilon=0.5, delta=1e-6, unit="person", bounds=bounds)
    model.fit(visits[train], ill[train], groups=patients[train])
    accuracy.append(model.score(visits[~train], ill[~train]))
print(model.guarantee_)

plt.figure(figsize=(6, 3.5), layout="constrained")
plt.plot(most, accuracy, "o-")
plt.xticks(most)
plt.ylim(0.7, 0.9)
plt.xlabel("rows of a person that are used, at most")
plt.ylabel("accuracy on new patients")
plt.title("Whole persons protected, epsilon 0.5")
plt.show()
