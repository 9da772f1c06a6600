"""Figures 3 to 6 of the paper on membership mappings: a digit by layer, by n, by r_max, with noise.

They print no number; each is judged by what it is there to show, over all rows of the digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.models.mappings import MembershipAutoencoder, layer_outputs
from sfumato.papers.data import images
from sfumato.papers.entry import Entry, Setting, claims_of
from sfumato.papers.kahm.figures import Panels, figure
from sfumato.papers.kahm.systems import EntryFabricator
from sfumato.tables.bounds import Bounds

Rows = NDArray[Any]
COMPONENTS = (20, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1)
RATIOS = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.025, 0.02, 0.015, 0.01, 0.005, 0.002)
BUDGETS = (10.0, 3.0, 1.0, 0.3, 0.1)  # not given in the text


def rows_of(setting: Setting, digit: int) -> Rows:
    """Return 1000 random rows of one digit, as the paper takes them."""
    split = images(setting)
    own = check_random_state(0).permutation(np.flatnonzero(split.y == digit))[:1000]
    return np.asarray(split.X[own], dtype=np.float64)


def autoencoder(rows: Rows, n: int = 20, r_max: float = 0.5, n_layers: int = 5) -> Any:
    """Fit Algorithm 2; Algorithm 3 is the same for at most 1000 rows."""
    model = MembershipAutoencoder(
        n, n_layers=n_layers, inducing_ratio=r_max, center=False, random_state=0
    )
    return model.fit(rows)


def shown(title: str, rows: Rows, made: dict[Any, Rows]) -> tuple[Panels, dict[str, bool]]:
    """Show the first row and what becomes of it; judge whether each step loses more of all rows."""
    pictures = np.clip([rows[0], *(each[0] for each in made.values())], 0, 1)
    lost = {at: np.sum((each - rows) ** 2, axis=1) for at, each in made.items()}
    gaps = {f"{a:g} to {b:g}: loses more of a row": lost[b] - lost[a] for a, b in pairwise(lost)}
    first, *_, last = made
    return {f"{title} {first:g} to {last:g}": {"": pictures.round(2)}}, claims_of(gaps)


def by_layer(setting: Setting) -> tuple[Panels, dict[str, bool]]:
    """Figure 3: outputs of 20 layers."""
    rows = rows_of(setting, 9)
    setting.tell("20 layers")
    layers = layer_outputs(autoencoder(rows, n_layers=20).branch_, rows)
    return shown("A nine, and the outputs of layers", rows, dict(enumerate(layers, 1)))


def by_parameter(setting: Setting, name: str, values: Sequence[Any]) -> Any:
    """Figures 4 and 5: outputs of autoencoders by the subspace dimension, and by r_max."""
    rows, made = rows_of(setting, 8), {}
    for value in values:
        setting.tell(f"{name} {value:g}")
        made[value] = autoencoder(rows, **{name: value}).transform(rows)
    return shown(f"An eight, and outputs for {name} from", rows, made)


def by_budget(setting: Setting) -> tuple[Panels, dict[str, bool]]:
    """Figure 6: a digit with noise on each entry."""
    rows, box = rows_of(setting, 8), Bounds(lower=0.0, upper=1.0)
    models = [EntryFabricator(n_smoothing=0, epsilon=e, bounds=box).fit(rows) for e in BUDGETS]
    made = {model.epsilon: model.fabricate() for model in models}
    return shown("An eight, and noisy ones for epsilon from", rows, made)


ENTRIES = tuple(
    Entry("cdmma", f"figure-{number}", title, partial(figure, show=show), data=data)
    for number, title, show, data in (
        (3, "A digit by layer", by_layer, "MNIST; quick: the 8 x 8 digits"),
        (4, "A digit by n", partial(by_parameter, name="n", values=COMPONENTS), "as Figure 3"),
        (5, "A digit by r_max", partial(by_parameter, name="r_max", values=RATIOS), "as Figure 3"),
        (6, "A digit with noise, by epsilon", by_budget, "as Figure 3"),
    )
)
