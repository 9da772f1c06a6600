"""
Ellipsoids with a margin
========================

Three classes of iris in two features. Each class has an ellipsoid, and a row belongs to the nearest
one. Maximum likelihood fits each class by itself; the large margin looks at the border.
"""

# %%
# Without privacy
# ---------------
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from sfumato import Bounds, LargeMarginGaussianClassifier, PrivateLargeMarginGaussianClassifier
from sfumato.exceptions import SfumatoError
from sfumato.papers.large_margin import PrintedLargeMarginClassifier, excess_risk_bound

X, y = load_iris(return_X_y=True)
X = X[:, 2:]
plain = LargeMarginGaussianClassifier(regularization=1e-3).fit(X, y)
print(f"accuracy {plain.score(X, y):.3f}, optimality to {plain.residual_:.0e}")

# %%
# With a guarantee
# ----------------
# For privacy, 150 rows are few: the border moves with the noise, less so for a larger epsilon.
bounds = Bounds(lower=[0.5, 0.0], upper=[7.5, 3.0], labels=[0, 1, 2])
models = {"no privacy": plain}
for epsilon in (3.0, 10.0, 30.0):
    model = PrivateLargeMarginGaussianClassifier(epsilon=epsilon, delta=1e-3, bounds=bounds)
    models[f"epsilon {epsilon:g}"] = model.fit(X, y)
print(model.guarantee_)

# %%
# As printed (Pathak and Raj, 2010)
# ---------------------------------
# Every other draw of the noise leaves no minimiser; and whatever is released protects nothing.
printed = PrintedLargeMarginClassifier(regularization=100.0, epsilon=10.0, bounds=bounds)
for _ in range(4):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(f"printed: {printed.fit(X, y).score(X, y):.2f}, {printed.guarantee_}")
    except SfumatoError as error:
        print(f"printed: {error}")
bound = excess_risk_bound(2, 3, len(X), epsilon=30.0, delta=1e-3)
print(f"mended: noise raises the mean objective by at most {bound:.2f} in 19 of 20 fits")

# %%
# Regions of the classes
# ----------------------
grid = np.stack(np.meshgrid(np.linspace(0.5, 7.5, 200), np.linspace(0, 3, 200)), axis=-1)
figure, axes = plt.subplots(1, 4, figsize=(12, 3.2), sharey=True, layout="constrained")
for ax, (name, fitted) in zip(axes, models.items(), strict=True):
    regions = fitted.predict(grid.reshape(-1, 2)).reshape(200, 200)
    ax.contourf(grid[..., 0], grid[..., 1], regions, levels=[-0.5, 0.5, 1.5, 2.5], alpha=0.3)
    ax.scatter(*X.T, c=y, s=8)
    ax.set_title(f"{name}: {fitted.score(X, y):.2f}", fontsize=10)
    ax.set_xlabel("petal length")
axes[0].set_ylabel("petal width")
plt.show()
