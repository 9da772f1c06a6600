"""Kernel affine hulls (Kumar, Moser and Fischer 2024): experiments and verdicts."""
