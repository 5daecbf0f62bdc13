"""Tests of the errors: each names the file, the key or node, the bad value and the cure."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.topology import (
    link,
    make_topology,
    master,
    parse_string,
    parse_toml_topology,
    recording,
    server,
    slave,
    workload,
)

SERVER = '[node.m]\nserver = "mariadb"\n'


def error_of(text: str) -> str:
    """Return the error of a topology, in TOML or as a short string."""
    with pytest.raises(OptionError) as error:
        parse_toml_topology(text, file="t.toml") if text.lstrip().startswith(("[", "#")) else parse_string(
            text
        )
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # keys
        (SERVER + 'rulse = []', "t.toml: node.m.rulse: there is no such key; did you mean rules?"),
        ("[nodes.m]", "t.toml: nodes: there is no such key; did you mean node?"),
        ("# nothing", "t.toml: has no [node.NAME]; the smallest topology has two of them"),
        (
            SERVER + '[node.w]\nfrom = "m"\nlink = { rat = "1mbit" }',
            "t.toml: node.w.link.rat: there is no such key; did you mean rate?",
        ),
        (
            SERVER + '[node.w]\nfrom = "m"\nrate = "1mbit"',
            't.toml: node.w.rate: there is no such key; write link = { rate = "…" }',
        ),
        (
            SERVER + '[node.w]\nfrom = [{ nod = "m" }]',
            "t.toml: node.w.from[1].nod: there is no such key; did you mean node?",
        ),
        (
            "m >> w[option=--replicate_do_db=shop]",
            "topology string: w[options]: --replicate_do_db=shop is a filter rule, which a check would not know; "
            "write it into rules",
        ),
        # values
        (
            SERVER + '[node.w]\nfrom = "m"\nlink = { rate = "2mbti" }',
            "t.toml: node.w.link.rate: '2mbti' is not a rate: write bits per second with bit, kbit, mbit or gbit, "
            "such as 2mbit",
        ),
        (
            SERVER + '[node.w]\nfrom = "m"\nlink = "2mbit"',
            't.toml: node.w.link: must be a table, as in { key = "value" }',
        ),
        ("[node.m]\nworkload = 5", 't.toml: node.m.workload: must be a table, as in { key = "value" }'),
        ("[node.m]\nbinlogs = 5", "t.toml: node.m.binlogs: must be the path of a file or directory, as a text"),
        (
            SERVER + '[node.w]\nfrom = "m"\nrules = ["shop"]',
            "t.toml: node.w.rules[1]: 'shop' is no filter rule; there are replicate-do-db, replicate-ignore-db, "
            "replicate-do-table, replicate-ignore-table, replicate-wild-do-table, replicate-wild-ignore-table, "
            "replicate-rewrite-db, do, ignore, rewrite",
        ),
        (
            SERVER + '[node.w]\nfrom = "m"\nlink = { delay = 5 }',
            't.toml: node.w.link.delay: 5 has no unit; write a text with a unit, such as "50ms"',
        ),
        (
            SERVER + '[node.w]\nfrom = "m"\nlink = { down = ["2m-60s"] }',
            "t.toml: node.w.link.down[1]: '2m-60s': the outage ends before it begins; write the earlier time first",
        ),
        ('[node.m]\nserver = "oracle"', "t.toml: node.m.server: is not one of 'mysql' or 'mariadb'"),
        (
            '[node.m]\nworkload = "1X"',
            "t.toml: node.m.workload.size: '1X' is not a size: bytes, or with K, M, G or T",
        ),
        (
            '[node.m]\nbinlogs = "x"\nspeed = 0',
            "t.toml: node.m.speed: 0 is not a speed: write 1 for the recording's own pace, 10 for ten times faster, "
            "or at-once",
        ),
        # kinds of node
        (
            SERVER + 'connect = "mysql://a@b/"',
            "t.toml: node.m.connect: stands beside server; a node is one of them",
        ),
        (
            SERVER + '[node.w]',
            "t.toml: node.w: says neither what the node is nor what it reads; give server, connect, binlogs, "
            "workload or from",
        ),
        (
            SERVER + 'role = "master"',
            "t.toml: node.m.role: master is a role of dumpfilter's own nodes; leave role out, or leave out what says "
            "that the node is a server or files",
        ),
        (SERVER + "speed = 2", "t.toml: node.m.speed: goes with binlogs only; leave it out, or say binlogs"),
        (
            SERVER + 'rules = ["do-db=a"]',
            "t.toml: node.m.rules: the node reads nothing; say from, or leave rules out",
        ),
        (
            '[node.m]\nconnect = "db1:3306"',
            "t.toml: node.m.connect: the address of a server begins with mysql://, as in mysql://repl@db1:3306/",
        ),
        # names and arrows
        (
            SERVER + '[node.web]\nfrom = "n"',
            "t.toml: node.web.from: there is no node 'n'; there are m",
        ),
        (
            SERVER + '[node.hr]\nfrom = "wbe"\n[node.web]\nfrom = "m"',
            "t.toml: node.hr.from: there is no node 'wbe'; did you mean web?",
        ),
        (
            SERVER + '[node.M]\nserver = "mariadb"',
            "t.toml: node.M: the names m and M do not differ, apart from the case of letters; give one node another "
            "name",
        ),
        (
            '[node."a b"]\nserver = "mariadb"',
            "t.toml: node.a b: 'a b' is no name of a node: use at most 50 letters, digits, - and _",
        ),
        (
            "n" * 51 + " >> w",
            f"topology string: {'n' * 51}: {'n' * 51!r} is no name of a node: use at most 50 letters, digits, - and _",
        ),
        (
            "m >> a >> b >> c; c >> a",
            "topology string: a: the nodes read in a circle, a >> b >> c >> a; leave one arrow out",
        ),
        ("m >> m", "topology string: m: the nodes read in a circle, m >> m; leave one arrow out"),
        ("m >> w; m >> w", "topology string: w: m stands there twice; a node reads a source once"),
        # roles
        (
            "a[server=mariadb], b[server=mariadb] >> f[role=master] >> w",
            "topology string: f: a master has one source, not 2 (a, b); make one master for each source, or a slave",
        ),
        (
            "m >> f[role=master, do-db=a] >> w",
            "topology string: f[rules]: a master has no rules of its own; give them to its readers",
        ),
        (
            "m >> a >> b[role=master] >> c",
            "topology string: b[role]: a master reads a server, a recording or a workload, and a is a slave of "
            "dumpfilter; say role = slave",
        ),
        (
            "r[binlogs=x] >> f[rate=1mbit] >> w",
            "topology string: f[link]: f reads the recording r from files, without a network; give the link to the "
            "readers of f",
        ),
        # rules and servers
        (
            "m >> w[do-table=shop]",
            "topology string: w[rules]: --replicate-do-table=shop: could not add the rule: it is not in the form "
            "db_name.table_name",
        ),
        (
            "m >> w[do-db=a, do=a.%]",
            "topology string: w[rules]: unknown option '--replicate-do-db' in effective filter semantics; the filters "
            "are: --do, --ignore, --rewrite",
        ),
        (
            "m >> w[server=mariadb, do=a.%]",
            "topology string: w[rules]: a real server does not know the rules do, ignore and rewrite; use replicate-… "
            "rules",
        ),
        (
            SERVER + '[node.w]\nfrom = "m"\nrules = ["replicate-do-db=a", "replicate-do-bd=a"]',
            "t.toml: node.w.rules[2]: 'replicate-do-bd=a' is no filter rule; did you mean replicate-do-db?",
        ),
        (
            "m[server=mysql] >> f >> w[server=mariadb]",
            "topology string: w[server]: a mariadb server cannot replicate from m, which is mysql; say server = mysql",
        ),
        (
            "m[server=mariadb, root=/opt/mysql] >> w",
            "topology string: m[root]: goes with server = mysql only; leave it out",
        ),
        (
            "m >> w[root=/opt/mysql]",
            "topology string: w[root]: goes with server only; leave it out, or say server",
        ),
        # the string's form
        ("m > web", "topology string: column 3: '>' has no meaning here; write NODE >> NODE[KEY=VALUE]"),
        ("m >> ", "topology string: column 6: a node is missing at the end"),
        ("m >>\n>> w", "topology string: line 2, column 1: a node is missing before '>>'"),
        ("m web", "topology string: column 3: an arrow is missing before web; write >> between nodes"),
        ("m >> w[", "topology string: column 8: w[…] holds KEY=VALUE, such as w[do-db=shop, rate=2mbit]"),
        ("m >> w[do-db=a", "topology string: column 15: the bracket of w[ is not closed"),
        (
            'm >> w[do-db="a"b]',
            "topology string: column 17: the value of do-db goes on here; put it into double quotes",
        ),
        ("m >> w[rat=1mbit]", "topology string: w[rat]: there is no such key; did you mean rate?"),
        ("m >> w[rate=1mbit, rate=2mbit]", "topology string: w[rate]: stands there twice; keep one"),
        ("m >> ; w", "topology string: column 6: a node is missing before ';'"),
        (
            "m[server=mariadb, rate=1mbit] >> w",
            "topology string: m[rate]: belongs to an arrow; write it after the arrow, as in SOURCE >> m[rate=1mbit]",
        ),
        ("m >> w[rate=]", "topology string: w[rate]: the value is missing"),
        (
            "w[do-db=a]; m >> w",
            "topology string: w[do-db]: belongs to an arrow; write it after the arrow, as in SOURCE >> w[do-db=a]",
        ),
        (
            "m >> w; w[server=mariadb] >> x",
            "topology string: w[server]: says what the node is; write it where w stands first",
        ),
        (
            "m >> w[size=1M]",
            "topology string: w[size]: belongs to a generated workload, which reads nothing; leave it out",
        ),
        ("", "the topology has no nodes; the smallest one is m >> web"),
    ],
)  # fmt: skip
def test_an_error_names_the_place_and_the_cure(text: str, expected: str) -> None:
    assert error_of(text) == expected


def test_an_error_never_shows_the_password_of_an_address() -> None:
    for text in ('[node.m]\nconnect = "mysql://a:secret@b/"', '[node.m]\nconnect = ["mysql://a:secret@b/"]'):
        assert "secret" not in error_of(text)


def test_errors_in_python_name_the_node() -> None:
    m = workload("m")
    with pytest.raises(OptionError, match=r"^node w: rules\[1\]: 'do-bd=a' is no filter rule"):
        make_topology(m, slave("w", m, rules=["do-bd=a"]))
    with pytest.raises(OptionError, match=r"^node w: from: there is no node 'm'"):
        make_topology(slave("w", m))
    with pytest.raises(OptionError, match=r"^node w: the names w and w do not differ"):
        make_topology(m, slave("w", m), server("w"))
    with pytest.raises(OptionError, match="'fast' is not a rate"):
        link("fast")


def test_nodes_stay_in_a_topology_as_they_are() -> None:
    files = recording("r", "bin.index")
    with pytest.raises(OptionError, match="node f: from: there is no node 'q'"):
        make_topology(files, master("f", "q"))
    nodes = (files, master("f", "r"), slave("s", "f"))
    topology = make_topology(*nodes)
    assert topology.nodes == nodes
    assert [node.kind for node in topology.nodes] == ["recording", "master", "slave"]
