from __future__ import annotations

import pytest
from shop import Session, Shop


@pytest.fixture
def shop(topology_session):
    """The application, connected to its primary and to its replica."""
    t = topology_session
    with t["primary"].connect() as primary, t["replica"].connect() as replica:
        shop = Shop(primary, replica, patience=0.2)
        shop.create_tables()
        t.wait_caught_up()
        yield shop


@pytest.fixture
def ada() -> Session:
    return Session("ada")
