from __future__ import annotations

import pytest

from dumpfilter.errors import ProtocolMismatch
from dumpfilter.stream.versions import MASTER_SPEAKS, SLAVE_SPEAKS, Programs, Versions, check_answer, choose

UNNAMED = Programs("", "")


@pytest.mark.parametrize(
    ("slave", "master", "chosen"),
    [((1, 1), (1, 2), 1), ((2, 2), (1, 2), 2), ((1, 2), (1, 2), 2), ((1, 9), (1, 2), 2), ((1, 3), (3, 5), 3)],
)
def test_the_highest_common_version_is_chosen(
    slave: tuple[int, int], master: tuple[int, int], chosen: int
) -> None:
    assert choose(Versions(*slave), UNNAMED, master=Versions(*master)) == chosen


@pytest.mark.parametrize(
    ("slave", "master", "behind"),
    [((1, 1), (2, 3), "the slave"), ((3, 4), (1, 2), "the master"), ((2, 2), (1, 1), "the master")],
)
def test_without_a_common_version_the_error_names_both_sides(
    slave: tuple[int, int], master: tuple[int, int], behind: str
) -> None:
    with pytest.raises(ProtocolMismatch) as caught:
        choose(Versions(*slave), Programs("9.8", "9.9"), master=Versions(*master))
    text = str(caught.value)
    assert text.endswith(f"; upgrade {behind}")
    assert f"the slave (dumpfilter 9.8) speaks {Versions(*slave)}, " in text
    assert f"the master (dumpfilter 9.9) speaks {Versions(*master)};" in text


def test_an_answer_without_a_version_is_of_version_1() -> None:
    assert check_answer(0, UNNAMED, slave=Versions(1, 2)) == 1
    assert check_answer(2, UNNAMED) == 2
    with pytest.raises(
        ProtocolMismatch, match=r"the master \(an early dumpfilter\) speaks 1; upgrade the master"
    ):
        check_answer(0, Programs("9.8", ""))
    with pytest.raises(ProtocolMismatch, match=r"the master \(dumpfilter 9.8\) speaks 3; upgrade the slave"):
        check_answer(3, Programs("9.7", "9.8"))


def test_this_release_serves_its_own_slaves() -> None:
    assert choose(SLAVE_SPEAKS, UNNAMED) in SLAVE_SPEAKS
    assert choose(SLAVE_SPEAKS, UNNAMED) in MASTER_SPEAKS
