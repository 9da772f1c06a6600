"""A real cluster of Dask: worker processes, lost and killed, and what leaves them."""

from __future__ import annotations

import pytest

pytest.importorskip("distributed", reason="needs Dask: pip install 'sfumato[dask]'")
