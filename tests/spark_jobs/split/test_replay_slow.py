"""Every recording is split by schema or by specifications, and the parts are read by the servers' own tools.

mysqlbinlog and mariadb-binlog read the parts without complaint. The parts are replayed into a real, empty MariaDB,
which then holds the source's rows of each schema.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.ownership import Specification, encode_name, load_specification
from tests.binlog_tools import complaints
from tests.mariadb import MariaDb
from tests.oracle.recordings import Recording
from tests.oracle.replaying import MariaDbServer, Server, comparable, replayable
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import RECORDINGS, check_set, walk

SPECIFICATIONS = {
    path.stem: load_specification(path) for path in sorted(Path(__file__).parent.glob("data/*.toml"))
}
SMALL = SplitOptions(range_size=8000, block_size=8192, max_binlog_size=20_000)
"""Options for many ranges and several files in a set."""


def small(specification: Specification) -> SplitOptions:
    return SplitOptions(specification=specification, range_size=8000, block_size=8192, max_binlog_size=20_000)


WAYS = ["schemas", *SPECIFICATIONS]
SPLITS = [(name, WAYS[number % len(WAYS)]) for number, name in enumerate(RECORDINGS)]
"""Every recording with one way to split, in turn. The recordings of other versions have the same transactions."""


@pytest.mark.parametrize(("name", "how"), SPLITS)
def test_parts_are_valid(name: str, how: str, tmp_path: Path) -> None:
    """The servers' own readers accept the parts. Together with a rest the parts hold every event."""
    made = split_here(
        RECORDINGS[name], tmp_path / "out", SMALL if how == "schemas" else small(SPECIFICATIONS[how])
    )
    family: Family = "mariadb" if "mariadb" in name else "mysql"
    for one in made.sets:
        check_set(one)
        assert complaints(one.files, family) == ""
    if how == "schemas":
        return  # test_assign.py checks the events
    if SPECIFICATIONS[how].rest is not None:
        # With a rest, the parts together hold every event.
        whole = walk(RECORDINGS[name])
        parts = [set(walk(one.index).events) for one in made.sets]
        assert not set(whole.events).difference(whole.orphans, *parts)


@pytest.fixture
def server(mariadb: MariaDb) -> Server:
    return MariaDbServer(mariadb)


def source_state(name: str) -> dict[str, dict[str, dict[str, Any]]]:
    oracle = RECORDINGS[name].parent / "oracle.json"
    if not oracle.exists():
        return {}
    return comparable(json.loads(oracle.read_text())["source"]["state"])


def collation(name: str) -> int:
    return Recording(RECORDINGS[name].parent).collation


READS_OTHERS = {
    # UPDATE shop… JOIN hr…, INSERT INTO logs… SELECT … FROM shop…, and the like
    "oracle/mariadb-mixed": {"shop.order_lines", "logs.audit"},
    "oracle/mariadb-statement": {
        *("shop.orders", "shop.order_lines", "hr.emp", "hr.emp_audit", "logs.events", "logs.audit"),
    },
    # CREATE TABLE a2 LIKE d2.c; ALTER TABLE d2.a4 RENAME d1.a4; a multi-table DELETE, then b10 from a
    "recordings/mariadb-forms": {"d1.a2", "d1.a4", "d1.b10"},
    # UPDATE d1.a RIGHT JOIN d2.c …, and the like
    "recordings/mariadb-forms3": {"d2.c"},
    # UPDATE t, other.t AS o SET …
    "recordings/mariadb-statements": {"shop.t", "other.t"},
    # INSERT INTO logs.t SELECT * FROM shop.t; UPDATE logs.t l JOIN shop.u u …
    "recordings/mariadb118-alter": {"shop.u", "logs.t"},
    # CREATE TABLE other.copied LIKE every_type
    "recordings/mariadb105-types": {"other.copied"},
}
"""Tables that *statements* wrote from tables of other schemas, which are not in the part: no replica with a filter has
them either. Rows need nothing but their table."""

_OTHER_VERSIONS = re.compile(r"/mariadb(105|118)-(mixed|row|statement)$|/mariadb1189-alter$")
"""Recordings with the transactions of another recording. :mod:`test_assign` compares the events of all recordings."""

REPLAYED = [
    name
    for name in RECORDINGS
    if "/mariadb" in name
    and "lower-case" not in name
    and not _OTHER_VERSIONS.search(name)
    and source_state(name)
    and replayable(Path(name).name)
]
# Other MySQL recordings have compressed transactions, collations or XA forms that MariaDB does not know.
REPLAYED += ["recordings/mysql-databases"]


@pytest.mark.parametrize("name", REPLAYED)
def test_a_real_server_gets_from_the_parts_what_the_whole_gave(
    name: str, server: Server, tmp_path: Path
) -> None:
    state = source_state(name)
    made = split_here(RECORDINGS[name], tmp_path / "out", SMALL)
    differ = set()
    for schema, tables in state.items():
        server.empty([other for other in state if other != schema], collation(name))
        server.replay(made.set(encode_name(schema)).files)
        found = comparable(server.state()).get(schema, {})
        names = {table for table in found.keys() | tables if found.get(table) != tables.get(table)}
        differ |= {f"{schema}.{table}" for table in names}
    assert differ == READS_OTHERS.get(name, set())


IN_ROWS = [name for name in REPLAYED if name.endswith(("-row", "-names", "-rewrite", "-databases"))]


@pytest.mark.parametrize("how", SPECIFICATIONS)
@pytest.mark.parametrize("name", IN_ROWS)
def test_a_real_server_gets_from_named_parts_what_belongs_to_them(
    name: str, how: str, server: Server, tmp_path: Path
) -> None:
    state = source_state(name)
    specification = SPECIFICATIONS[how]
    made = split_here(RECORDINGS[name], tmp_path / "out", small(specification))
    filters = specification.filters(NameRules("mariadb"))
    differ = set()
    for one in made.sets:
        server.empty(list(state), collation(name))
        server.replay(one.files)
        found = comparable(server.state())
        for schema, tables in state.items():
            for table, rows in tables.items():
                owners = [binlog for binlog, rules in filters if rules.rows_ok(schema, table)]
                if (one.name in owners or (not owners and one.name == specification.rest)) and found[
                    schema
                ].get(table) != rows:
                    differ.add((one.name, f"{schema}.{table}"))
    assert differ == BY_CURRENT_DATABASE.get((name, how), set())


BY_CURRENT_DATABASE = {
    # USE hr; CREATE TABLE shop.made_from_hr: a replica with do-db=shop does not create this table either.
    ("oracle/mariadb-row", "mixed"): {("shop", "shop.made_from_hr")},
}
