"""What tests of live protocols share: a PostgreSQL server, started at the first use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.postgres import PostgresServer
from tests.needs import require


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    require("postgres")
    server = PostgresServer()
    yield server
    server.stop()
