"""Kernels and kernel least squares on NumPy arrays or PyTorch tensors; nothing private is here."""

from sfumato.kernels.gaussian import gaussian_kernel
from sfumato.kernels.least_squares import (
    FixedPointSolution,
    mean_squared_residual,
    solve_at_fixed_point,
)

__all__ = [
    "FixedPointSolution",
    "gaussian_kernel",
    "mean_squared_residual",
    "solve_at_fixed_point",
]
