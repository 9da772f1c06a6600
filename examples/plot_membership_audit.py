"""
What hulls tell about their training rows
=========================================

A hull is close to the rows from which it was made, so the distance of a row from the nearest hull
reveals whether the row was among them. The membership score is the squared distance between the two
densities below. The ROC curve shows what an attacker gains from them where it matters, at few false
alarms.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sfumato import AffineHullClassifier, Bounds, PrivateAffineHullClassifier
from sfumato.audit import membership_attack, membership_score

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
X, y = X[order] / 16, y[order]
members, others = X[:900], X[900:]

# %%
# One classifier has no privacy; the hulls of the other are made of private rows: epsilon 4 for a
# whole image with its label.

bounds = Bounds(lower=0.0, upper=1.0, labels=range(10))
clean = AffineHullClassifier(n_layers=2).fit(members, y[:900])
private = PrivateAffineHullClassifier(
    epsilon=4.0,
    delta=1e-5,
    n_layers=1,
    n_components=15,
    samples_per_gaussian=400,
    bounds=bounds,
    random_state=0,
).fit(members, y[:900])
models = {"hulls of raw rows": clean, "hulls of private rows, epsilon 4": private}

# %%
# The histograms are those of the paper's Figure 13.

figure, axes = plt.subplots(1, 2, figsize=(8, 3))
for axis, (name, model) in zip(axes, models.items(), strict=True):
    score = membership_score(model, members, others)
    bins = np.linspace(*np.quantile(np.r_[score.members, score.non_members], [0, 0.995]), 40)
    axis.hist(score.members, bins, density=True, alpha=0.6, color="#0d676d", label="members")
    axis.hist(score.non_members, bins, density=True, histtype="step", color="black", label="others")
    axis.set_title(f"{name}\nscore {score.value:.2f} ± {score.standard_error:.2f}", fontsize=10)
    axis.set_xlabel("distance to the nearest hull")
axes[0].legend(frameon=False)
figure.tight_layout()

# %%
# On logarithmic axes, guessing is the dashed diagonal. Rows above it on the left have their
# membership revealed almost with certainty.

figure, axis = plt.subplots(figsize=(4.6, 4.2))
for (name, model), style in zip(models.items(), ("-", ":"), strict=True):
    attack = membership_attack(model, members, others)
    axis.loglog(*attack.curve, style, color="#0d676d", label=f"{name}\nAUC {attack.auc.value:.2f}")
    print(f"{name}: {attack}")
axis.plot([1e-3, 1], [1e-3, 1], "--", color="0.5")
axis.set(xlim=(1e-3, 1), ylim=(1e-3, 1))
axis.set(xlabel="false positive rate", ylabel="true positive rate")
axis.legend(frameon=False, fontsize=9)
figure.tight_layout()
plt.show()

# %%
# These figures are measured on raw rows: they are for the owner of the rows, not for release. They
# are also averages, whereas a guarantee is about the worst row. That guarantee can be attacked as
# well, without any data.

print(private.audit(n_runs=100))
