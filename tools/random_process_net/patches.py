"""Make the filters of `RandomPatchFeatures` from generated images, and from nothing else.

python tools/random_process_net/patches.py --out random_patches.npz

No file is read: the images are dead leaves as in `train.py`, drawn from a seed. Patches of 6 x 6
pixels are cut out of them, brought to mean 0 and variance 1, and whitened by their own second
moment; a filter is such a patch, of length 1, whitened once more, so that its product with a patch
is the product of two whitened patches (Coates, Ng & Lee, An analysis of single-layer networks in
unsupervised feature learning, 2011).

Needs PyTorch. The same seed gives the same filters but for the last bits of the eigenvectors. The
file in the package carries its seed and this script's hash.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from train import dead_leaves

SIDE = 6
N_IMAGES = 4096
N_PATCHES = 200_000
FLAT = 1e-3  # added to the variance of a patch: a flat one stays flat
FLOOR = 0.1  # added to the eigenvalues of the second moment
SHORTEST = 0.5  # of a whitened patch: nearly flat ones are no filters


def filters(n_filters: int, seed: int) -> Tensor:
    """Give filters as rows, colour by colour, each of them row by row."""
    draws = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(N_IMAGES // 256):
        cut = functional.unfold(dead_leaves(256, draws), SIDE).transpose(1, 2)
        places = torch.randperm(cut.shape[1], generator=draws)[: 2 * N_PATCHES // N_IMAGES]
        found.append(cut[:, places].reshape(-1, cut.shape[2]).double())
    patches = torch.cat(found)
    patches = patches[torch.randperm(len(patches), generator=draws)]
    patches = patches - patches.mean(dim=1, keepdim=True)
    patches = patches / (patches.var(dim=1, correction=0, keepdim=True) + FLAT).sqrt()
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    whitening = (vectors / (values.clamp(min=0) + FLOOR).sqrt()) @ vectors.T
    whitened = patches[: 4 * n_filters] @ whitening
    lengths = whitened.norm(dim=1, keepdim=True)
    chosen = (whitened / lengths)[lengths[:, 0] > SHORTEST][:n_filters]
    return chosen @ whitening


def main() -> None:
    """Draw, cut, whiten and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--filters", type=int, default=8192)
    parser.add_argument("--out", default="random_patches.npz")
    options = parser.parse_args()
    found = filters(options.filters, options.seed).numpy().astype(np.float16)
    script = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    aside = Path(options.out).with_suffix(".part.npz")
    facts = f"seed={options.seed} script={script}"
    np.savez(aside, made_by=np.array(facts), filters=found)
    aside.replace(options.out)


if __name__ == "__main__":
    main()
