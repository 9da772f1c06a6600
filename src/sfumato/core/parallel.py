"""Independent tasks through joblib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from joblib import cpu_count, effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits


def map_in_parallel(
    task: Callable[..., Any], items: Sequence[Any], *, n_jobs: int | None
) -> list[Any]:
    """Return ``[task(item) for item in items]``, computed by `n_jobs` workers.

    Threads are preferred, since the work is in BLAS; `joblib.parallel_config` chooses another
    backend. Several workers share the cores instead of each starting a BLAS thread per core.
    """
    n_workers = min(effective_n_jobs(n_jobs), len(items))
    limits = threadpool_limits(max(1, cpu_count() // n_workers)) if n_workers > 1 else nullcontext()
    with limits:
        parallel = Parallel(n_jobs=n_workers, prefer="threads")
        return list(parallel(delayed(task)(item) for item in items))
