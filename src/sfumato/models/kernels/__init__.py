"""Kernels and kernel least squares on NumPy arrays or PyTorch tensors; nothing private is here."""

from sfumato.models.kernels.covariance import (
    ExponentialKernel,
    GaussianKernel,
    Kernel,
    KernelExpansion,
    MaternKernel,
    kernel_from_dict,
)
from sfumato.models.kernels.gaussian import gaussian_kernel
from sfumato.models.kernels.least_squares import (
    FixedPointSolution,
    solve_at_fixed_point,
)
