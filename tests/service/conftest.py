from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.house import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A service with one open data set."""
    made = House(tmp_path_factory.mktemp("service"))
    made.open(epsilon=40.0)
    yield made
    made.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[House]:
    """A service without data sets, of one test."""
    made = House(tmp_path)
    yield made
    made.close()
