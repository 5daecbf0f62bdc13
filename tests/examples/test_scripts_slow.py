"""The examples that are scripts. They run in the test's own process, and share its keeper of topologies."""

from __future__ import annotations

import runpy

import pytest

from tests.harness.running import ROOT

EXAMPLES = ROOT / "examples"


def said(script: str, output: pytest.CaptureFixture[str]) -> list[str]:
    """Run a script, and return the lines that the script prints."""
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return output.readouterr().out.splitlines()


def test_the_replica_at_the_end_of_a_chain_has_what_its_filter_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = said("chain/chain.py", capsys)
    assert told[-1].startswith("the law holds")
    assert "tokyo has 900 orders, and of shop and audit only shop" in told
    # Only a small part of the binlog crosses the line.
    received, sent = (int(line.split()[-2].replace(",", "")) for line in told[:2])
    assert sent < received / 3


def test_filtered_sites_are_sent_less_and_the_law_holds(capsys: pytest.CaptureFixture[str]) -> None:
    _, everything, shop, warehouse, law = said("fan-out/fan_out.py", capsys)
    sent = {name: int(amount) for name, amount, *_ in map(str.split, (everything, shop, warehouse))}
    assert sent["everything"] > 3 * sent["shop"] > 3 * sent["warehouse"] > 0
    assert law.startswith("law: every site has what its filter keeps")


def test_the_head_office_has_the_orders_of_both_branches(capsys: pytest.CaptureFixture[str]) -> None:
    told = said("two-sources/two_sources.py", capsys)
    assert told[:3] == [
        "hq has 400 orders of north",
        "hq has 400 orders of south",
        "hq has no database staff",
    ]
    written, applied = (
        told[3].removeprefix("the branches wrote up to GTIDs ").split(", and hq has applied up to ")
    )
    assert written == applied
    assert told[-1].startswith("the law holds")
