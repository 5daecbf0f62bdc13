from __future__ import annotations

import pytest

from dumpfilter.base.errors import ProtocolMismatch
from dumpfilter.dump.stream.versions import PROTOCOL, Peer, check_versions


def test_one_version() -> None:
    check_versions(slave=Peer(PROTOCOL, "9.8"), master=Peer(PROTOCOL, "9.9"))


@pytest.mark.parametrize(
    ("slave", "master", "text"),
    [
        (
            Peer(2, "9.8"),
            Peer(3, "9.9"),
            r"the slave \(dumpfilter 9.8\) speaks version 2, the master \(dumpfilter 9.9\) speaks version 3; "
            "upgrade the slave$",
        ),
        (
            Peer(2, "9.8"),
            Peer(0, ""),
            r"the master \(an early dumpfilter\) speaks version 1; upgrade the master$",
        ),
    ],
)
def test_the_error_names_both_sides_and_the_one_to_upgrade(slave: Peer, master: Peer, text: str) -> None:
    with pytest.raises(ProtocolMismatch, match=text):
        check_versions(slave=slave, master=master)
