"""Figures 3 to 6 of the paper on membership mappings: what autoencoders keep of a digit, and noise.

They print no numbers, so that each is judged by what it is there to show.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sfumato.mechanisms import EntryMechanism
from sfumato.models.mappings import MembershipAutoencoder, WideMembershipAutoencoder
from sfumato.papers.data import images
from sfumato.papers.entry import Entry, Outcome, Setting
from sfumato.papers.pictures import draw_image_grid

QUERIES = 20  # rows to be rebuilt; one is shown
N_VALUES = (20, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1)
RATIOS = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.025, 0.02, 0.015, 0.01, 0.005, 0.002)
MORE_ABSTRACT = "the last output is farther from the row than the first"
PICTURE = "The paper shows one sample; claims are about the mean over 20."


def abstraction(setting: Setting, kind: str) -> Outcome:
    """Rebuild digits by the layers of an autoencoder, or by ever coarser autoencoders."""
    split, digit = images(setting), 9 if kind == "layers" else 8
    rows = split.X[split.y == digit].astype(np.float64)
    rows = rows[check_random_state(0).permutation(len(rows))[:1000]]
    queries = rows[:QUERIES]
    if kind == "layers":
        model = MembershipAutoencoder(20, n_layers=20, random_state=0).fit(rows)
        outputs = np.moveaxis(np.asarray(model.layer_outputs(queries)), 1, 0)
    else:
        made: list[dict[str, Any]] = [{"n_components": n} for n in N_VALUES]
        if kind == "ratios":
            made = [{"n_components": 20, "inducing_ratio": ratio} for ratio in RATIOS]
        outputs = np.stack(
            [
                WideMembershipAutoencoder(n_layers=5, random_state=0, **each)
                .fit(rows)
                .transform(queries)
                for each in made
            ]
        )
    away = np.linalg.norm(outputs - queries, axis=2).mean(axis=1)
    shown = {f"row, then by {kind}": np.vstack([queries[:1], outputs[:, 0]]).round(2).tolist()}
    series = {"rows": shown, "mean distance": away.round(5).tolist()}
    claims = {MORE_ABSTRACT: bool(away[-1] > away[0])}
    return Outcome((), claims, series, draw_image_grid, (PICTURE,))


def figure_6(setting: Setting) -> Outcome:
    """Add the noise of Algorithm 5 to a digit."""
    row = images(setting).X[:1].astype(np.float64)
    shown, spreads = {"row": row.round(2).tolist()}, []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0):
        mechanism = EntryMechanism(entry_bound=1.0, epsilon=epsilon, delta=1e-5)
        noisy = mechanism.for_size(row.size).release(row, ledger=None)
        shown[f"epsilon {epsilon:g}"] = noisy.clip(0, 1).round(2).tolist()
        spreads.append(float(np.mean(np.abs(noisy - row)) * epsilon))
    claims = {"the mean noise is 1 / epsilon": all(0.5 < spread < 1.5 for spread in spreads)}
    return Outcome((), claims, {"rows": shown}, draw_image_grid, (PICTURE,))


ENTRIES = tuple(
    Entry("cdmma", name, title, run, data="MNIST; quick: 8 x 8 digits")
    for name, title, run in (
        ("figure-3", "A nine through the layers of a CDMMA", partial(abstraction, kind="layers")),
        ("figure-4", "An eight by wide CDMMAs of smaller n", partial(abstraction, kind="n")),
        ("figure-5", "An eight by CDMMAs of smaller r_max", partial(abstraction, kind="ratios")),
        ("figure-6", "A digit with noise", figure_6),
    )
)
