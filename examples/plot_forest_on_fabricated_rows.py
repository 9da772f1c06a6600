"""
A forest on fabricated rows
===========================

A random forest knows nothing about privacy. Trained on fabricated rows, it is private all the same,
and so is every other model that you try on them: the budget was spent once.
"""

# %%
# A table with numbers and categories
# -----------------------------------
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from sfumato import Fabricator, TableBounds

rng = np.random.default_rng(0)
n = 6000
ill = rng.random(n) < 0.35
table = pd.DataFrame(
    {
        "age": np.clip(rng.normal(48 + 14 * ill, 11), 18, 95).astype(int),
        "pressure": np.clip(rng.normal(122 + 18 * ill, 12), 80, 200),
        "smoker": rng.random(n) < 0.2 + 0.35 * ill,
        "ward": rng.choice(["north", "south", "west"], n),
    }
)
seen, unseen, y, y_unseen = train_test_split(table, ill, random_state=0)

# %%
# What is public: ranges and types, the wards, the two labels
# -----------------------------------------------------------
wards = ["north", "south", "west"]
bounds = TableBounds.from_dict(
    {
        "age": {"type": "int64", "lower": 18, "upper": 95},
        "pressure": (80, 200),
        "smoker": bool,
        "ward": wards,
        "ill": [False, True],
    },
    target="ill",
)


def encoded(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(ward=frame["ward"].map({w: i for i, w in enumerate(wards)}))


def accuracy(epsilon: float) -> float:
    fabricator = Fabricator(
        epsilon=epsilon,
        delta=1e-5,
        bounds=bounds,
        random_state=0,
    )
    rows = fabricator.fit_fabricate(seen, y)  # a table, the target a column of it
    labels = rows.pop("ill")
    forest = RandomForestClassifier(min_samples_leaf=20, random_state=0)
    return forest.fit(encoded(rows), labels).score(encoded(unseen), y_unseen)


budgets = [0.03, 0.1, 0.3, 1.0, 3.0]
found = np.array([[accuracy(epsilon) for _ in range(5)] for epsilon in budgets])
forest = RandomForestClassifier(min_samples_leaf=20, random_state=0).fit(encoded(seen), y)
without = forest.score(encoded(unseen), y_unseen)

# %%
# Accuracy on unseen real rows
# ----------------------------
# Each dot is one release with fresh noise; the line is their mean. (Five releases cost five
# budgets; here they show how much one draw varies.)
figure, ax = plt.subplots(layout="constrained")
ax.semilogx(budgets, found.mean(axis=1), color="#0d676d", label="trained on fabricated rows")
ax.semilogx(budgets, found, "o", color="#0d676d", markersize=4, alpha=0.5)
ax.axhline(without, color="black", linestyle="--", label="trained on the rows themselves")
ax.axhline(np.mean(~y_unseen), color="grey", linestyle=":", label="always the commoner answer")
ax.set_xticks(budgets, [f"{e:g}" for e in budgets])
ax.minorticks_off()
ax.set_ylim(0.4, 0.95)
ax.set_xlabel("epsilon (one record, delta 1e-5)")
ax.set_ylabel("accuracy")
ax.legend()
plt.show()
