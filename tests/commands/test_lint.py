"""``dumpfilter lint`` prints warnings with their events, and its exit code tells whether there is one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.in_process import run
from tests.oracle.recordings import DATA

SET = DATA / "oracle" / "mariadb-row"


def test_a_warning_has_the_event_and_the_cure() -> None:
    finished = run("lint", SET, "--replicate-do-db=shop")
    assert finished.returncode == 4
    assert "warning: missing-table\n  --replicate-do-db=shop\n" in finished.stdout
    assert "bin.000002:7549: use `hr`; CREATE TABLE shop.made_from_hr (i INT PRIMARY KEY)" in finished.stdout
    assert "--replicate-wild-do-table=shop.%" in finished.stdout


def test_no_warning_and_notes() -> None:
    assert run("lint", SET, "--replicate-wild-do-table=shop.%") == (0, "no warnings\n", "")
    finished = run("lint", SET, "--replicate-ignore-db=nothing_like_this")
    assert finished.returncode == 0
    assert finished.stdout.startswith("note: no-match\n")


def test_json_and_several_slaves(tmp_path: Path) -> None:
    file = tmp_path / "web.cnf"
    file.write_text("[mysqld]\nreplicate-do-db=shop,hr\n")
    finished = run(
        "lint", SET, "--slaves", file, "--slave", "shop:--replicate-wild-do-table=shop.%", "--json"
    )
    assert finished.returncode == 4
    web, shop = json.loads(finished.stdout)["filters"]
    assert [web["name"], shop["name"], shop["warnings"]] == ["web", "shop", []]
    comma = web["warnings"][0]
    assert (comma["code"], comma["level"]) == ("comma", "warning")
    assert comma["cure"] == "Did you mean --replicate-do-db=shop --replicate-do-db=hr?"
    assert comma["evidence"][0]["file"] == "bin.000001"


def test_json_names_the_errors_that_stop_a_replica() -> None:
    finished = run("lint", SET, "--replicate-wild-do-table=logs.%", "--json")
    (warnings,) = (one["warnings"] for one in json.loads(finished.stdout)["filters"])
    (missing,) = (one for one in warnings if one["code"] == "missing-database")
    assert missing["names"] == ["shop"]
    assert missing["errors"][0] == 1049
    assert missing["cure"].startswith("Add --replicate-wild-do-table=shop. ")


def test_equal_slaves_are_joined() -> None:
    slaves = [f"--slave={name}:--replicate-do-db=shop" for name in ("web1", "web2")]
    slaves.insert(1, "--slave=all:--replicate-wild-do-table=%.%")
    finished = run("lint", SET, *slaves, "--slave=shop:--replicate-wild-do-table=shop.%")
    assert finished.stdout.startswith(
        "web1, web2\nwarning: missing-table\n  --replicate-do-db=shop\n    CREATE"
    )
    assert finished.stdout.endswith("all, shop no warnings\n")
    assert "Use --replicate-wild-do-table=shop.%" in " ".join(finished.stdout.split())
    listed = json.loads(run("lint", SET, *slaves, "--json").stdout)["filters"]
    assert [one["name"] for one in listed] == ["web1", "all", "web2"]


def test_rules_are_needed_once() -> None:
    for arguments in ([], ["--replicate-do-db=a", "--slave", "b:--replicate-do-db=b"]):
        finished = run("lint", SET, *arguments)
        assert finished.returncode == 2
        assert "give either rules" in finished.stderr
