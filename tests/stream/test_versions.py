from __future__ import annotations

import pytest

from dumpfilter.errors import ProtocolMismatch
from dumpfilter.stream.versions import MASTER_SPEAKS, SLAVE_SPEAKS, Versions, check_answer, choose


@pytest.mark.parametrize(
    ("slave", "master", "chosen"),
    [((1, 1), (1, 2), 1), ((2, 2), (1, 2), 2), ((1, 2), (1, 2), 2), ((1, 9), (1, 2), 2), ((1, 3), (3, 5), 3)],
)
def test_the_highest_common_version_is_chosen(
    slave: tuple[int, int], master: tuple[int, int], chosen: int
) -> None:
    assert choose(Versions(*slave), "", master=Versions(*master)) == chosen


@pytest.mark.parametrize(
    ("slave", "master", "behind"),
    [((1, 1), (2, 3), "the slave"), ((3, 4), (1, 2), "the master"), ((2, 2), (1, 1), "the master")],
)
def test_without_a_common_version_the_error_names_both_sides(
    slave: tuple[int, int], master: tuple[int, int], behind: str
) -> None:
    with pytest.raises(ProtocolMismatch) as caught:
        choose(Versions(*slave), "9.8", master=Versions(*master))
    text = str(caught.value)
    assert text.endswith(f"; upgrade {behind}")
    assert f"the slave (dumpfilter 9.8) speaks {Versions(*slave)}, the master (dumpfilter " in text
    assert f") speaks {Versions(*master)};" in text


def test_an_answer_without_a_version_is_of_version_1() -> None:
    assert check_answer(0, "", slave=Versions(1, 2)) == 1
    assert check_answer(2, "9.8") == 2
    with pytest.raises(
        ProtocolMismatch, match=r"the master \(an early dumpfilter\) speaks 1; upgrade the master"
    ):
        check_answer(0, "")
    with pytest.raises(ProtocolMismatch, match=r"the master \(dumpfilter 9.8\) speaks 3; upgrade the slave"):
        check_answer(3, "9.8")


def test_this_release_serves_its_own_slaves() -> None:
    assert choose(SLAVE_SPEAKS, "") in SLAVE_SPEAKS
    assert choose(SLAVE_SPEAKS, "") in MASTER_SPEAKS
