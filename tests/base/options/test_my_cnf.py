"""Option files, compared with the servers' own reader, and the servers' spellings on the real command line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.arguments import OptionNames
from dumpfilter.base.options.config_files import (
    MAX_DEPTH,
    GivenOption,
    UnknownOption,
    parse,
    read_options_file,
)
from dumpfilter.base.options.settings import Settings, setting, with_settings
from dumpfilter.commands.option_files import OptionFileCommand, OptionFiles


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    path.chmod(0o644)
    return path


def options(path: Path, section: str = "mysqld") -> list[tuple[str, str | None]]:
    return [(o.name, o.value) for o in read_options_file(path) if o.section.lower() == section]


def printed(given: list[tuple[str, str | None]]) -> str:
    return "".join(f"--{name}\n" if value is None else f"--{name}={value}\n" for name, value in given)


def my_print_defaults(path: Path) -> str:
    """Return the options as MariaDB's ``my_print_defaults`` prints them."""
    command = ["my_print_defaults", f"--defaults-file={path}", "mysqld"]
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout.decode("utf-8", "surrogateescape")


# each line with the output of my_print_defaults of MySQL 9.7 and of MariaDB 10.11
RECORDED = {
    "plain=abc": "--plain=abc",
    "  spaced   =   a b c   ": "--spaced=a b c",
    "tab\t=\tx\t": "--tab=x",
    'quoted1="a b "': "--quoted1=a b ",
    "quoted2='a \"b\" '": '--quoted2=a "b" ',
    'half="abc': '--half="abc',
    'half2=abc"': '--half2=abc"',
    "empty=": "--empty=",
    'emptyq=""': "--emptyq=",
    'one="': '--one="',
    "mixed='\"": "--mixed='\"",
    "novalue": "--novalue",
    "hash=a#b # comment": "--hash=a",
    'hash2="a # b"': "--hash2=a # b",
    'hash3="a # b" # comment': "--hash3=a # b",
    'hash4="x # y\\" # z" # w': '--hash4=x # y" # z',
    "hash5='it''s # b'": "--hash5=it''s # b",
    "hash6='a\\'b # c' # d": "--hash6=a'b # c",
    "hash7=a\\'b # c": "--hash7=a'b # c",
    "hash8=a'b # c": "--hash8=a'b # c",
    'hash9="#"': "--hash9=#",
    'hash10="a\\\\" # x': "--hash10=a\\",
    "semi=a ; b": "--semi=a ; b",
    "esc=a\\tb\\nc\\sd\\\\e\\qf\\\"g\\'h": "--esc=a\tb\nc d\\e\\qf\"g'h",
    'esc2="a\\"b"': '--esc2=a"b',
    "esc3=c:\\\\new": "--esc3=c:\\new",
    "esc4=end\\": "--esc4=end\\",
    "esc5=a\\bX\\rY": "--esc5=a\bX\rY",
    "dash-a_b=1": "--dash-a_b=1",
    "UPPER_Case=1": "--UPPER_Case=1",
    "multi=a=b=c": "--multi=a=b=c",
    'two="a" "b"': '--two=a" "b',
    'esc6=\\"a"': '--esc6="a"',
    'esc7="a\\"': "--esc7=a\\",
    "crlf=a \r": "--crlf=a",
    "sp ace=1": "--sp ace=1",
    "=noname": "--=noname",
    "--dashed=1": "----dashed=1",
    "# comment": None,
    "; comment": None,
    "   ": None,
}


def test_values_are_what_both_servers_read(tmp_path: Path) -> None:
    path = write(tmp_path / "my.cnf", "[mysqld]\n" + "\n".join(RECORDED))
    expected = "".join(f"{line}\n" for line in RECORDED.values() if line is not None)
    assert printed(options(path)) == expected == my_print_defaults(path)


def test_sections_are_what_both_servers_read(tmp_path: Path) -> None:
    text = (
        "#first\n[client]\nc=1\n [mysqld]\na=1\n[mysqld ] \nb=1\n[MYSQLD]\nc=1\n[mysqld] # trailing\nd=1\n[mysqld]x\n"
        "e=1\n[ mysqld]\nf=1\n[mysqld#x]\ng=1\n[]\nh=1\n[mysqld-9.7]\ni=1\n[mysqld]\nj=1"
    )
    path = write(tmp_path / "my.cnf", text)
    assert printed(options(path)) == "--a=1\n--b=1\n--c=1\n--d=1\n--e=1\n--j=1\n" == my_print_defaults(path)


def comparable(line: str) -> bool:
    """Tell whether MariaDB reads the line in one way. Sections have a test of their own.

    Before an indented ``=`` MariaDB 10.11 and 11.8 look for the name's end in what stands in front of the line.
    """
    return not line.strip().startswith("[") and not re.match(r"\s+=", line)


LINES = st.one_of(
    st.text(" \t\\\"'#;=abnrst[]-_.:é%", max_size=30).filter(comparable),
    st.sampled_from([line for line in RECORDED if "[" not in line]),
    st.sampled_from(["[mysqld]", "[ mysqld ]", "[other]", "[MySQLd] x"]),
)


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(LINES, max_size=20))
def test_any_file_is_what_mariadb_reads(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.getbasetemp() / "any.cnf", "\n".join(["[mysqld]", *lines]))
    assert printed(options(path)) == my_print_defaults(path)


def quoted(value: str) -> str:
    for character, letter in (("\\", "\\"), ("\n", "n"), ("\r", "r"), ("\t", "t"), ("\b", "b"), ('"', '"')):
        value = value.replace(character, f"\\{letter}")
    return f'"{value}"'


@given(st.lists(st.text().filter(lambda value: "\0" not in value)))
def test_every_value_can_be_written(values: list[str]) -> None:
    text = "[s]\n" + "".join(f"v{n} = {quoted(value)} # comment\n" for n, value in enumerate(values))
    assert [(o.name, o.value, o.line) for o in parse(text, "f") if isinstance(o, GivenOption)] == [
        (f"v{n}", value, n + 2) for n, value in enumerate(values)
    ]


@given(st.text(), st.sampled_from(["", "[s]\n"]))
def test_nothing_but_options_and_typed_errors(text: str, before: str) -> None:
    text = before + text
    lines: list[int] = []
    try:
        lines.extend(item.line for item in parse(text, "f"))
    except OptionError as error:
        named = re.match(r"f:(\d+): ", str(error))
        assert named
        lines.append(int(named[1]))
    for line in lines:
        assert text.split("\n")[line - 1].strip(" \t\v\f\r")  # white space in C


def test_includes_are_read_where_they_stand(tmp_path: Path) -> None:
    directory = tmp_path / "conf.d"
    directory.mkdir()
    (directory / "dir.cnf").mkdir()
    for name in ("b", "a", "C", "10", "9", ".hidden"):
        write(directory / f"{name}.cnf", f"[mysqld]\nfrom={name}\n[other]\n")
    write(directory / "x.txt", "[mysqld]\nfrom=txt")
    write(directory / "x.CNF", "[mysqld]\nfrom=CNF")
    write(directory / "x.ini", "[mysqld]\nfrom=ini")
    write(tmp_path / "one.cnf", "[other]\n[mysqld]\nfrom=one\n[other]\n")
    path = write(
        tmp_path / "my.cnf",
        f"[mysqld]\nfirst\n !includedir\t{directory}  \nmiddle\n!include {tmp_path / 'one.cnf'}\nlast\n",
    )
    assert printed(options(path)) == my_print_defaults(path)
    assert options(path) == [
        ("first", None),
        *(("from", name) for name in (".hidden", "10", "9", "C", "a", "b")),
        ("middle", None),
        ("from", "one"),
        ("last", None),
    ]


def test_a_comment_after_an_include_is_one_as_in_mysql(tmp_path: Path) -> None:
    write(tmp_path / "one.cnf", "[mysqld]\nfrom=one\n")
    path = write(tmp_path / "my.cnf", f"!include {tmp_path / 'one.cnf'} # MariaDB takes this for the name\n")
    assert options(path) == [("from", "one")]


def test_where_an_option_stands_is_known(tmp_path: Path) -> None:
    inner = write(tmp_path / "inner.cnf", "\n[mysqld]\n\nx=1\n")
    outer = write(tmp_path / "outer.cnf", f"!include {inner}\n[mysqld]\ny=2\n")
    assert [str(o.error("no")) for o in read_options_file(outer)] == [f"{inner}:4: no", f"{outer}:3: no"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mysqld]\n[mysqld\nx=1\n", "my.cnf:2: wrong group definition"),
        ("\nx=1\n", "my.cnf:2: found option without preceding group"),
        ("\ufeff[mysqld]\n", "my.cnf:1: found option without preceding group"),
        ("!include\n", "my.cnf:1: wrong !include directive"),
        ("!includedir # nothing\n", "my.cnf:1: wrong !includedir directive"),
        ("[a]\n!inlcude x\n", "my.cnf:2: unknown directive !inlcude"),
        (
            "!include {tmp}/nowhere.cnf\n",
            "my.cnf:1: {tmp}/nowhere.cnf: cannot read the option file: No such file",
        ),
        ("!includedir {tmp}/nowhere\n", "my.cnf:1: {tmp}/nowhere: cannot read the directory: No such file"),
        ("!include {tmp}\n", "my.cnf:1: {tmp}: cannot read the option file: Is a directory"),
        ("\n!include {tmp}/my.cnf\n", f"my.cnf:2: includes are nested more than {MAX_DEPTH} deep"),
    ],
)
def test_what_is_wrong_with_a_file(text: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path / "my.cnf", text.replace("{tmp}", str(tmp_path)))
    with pytest.raises(OptionError) as raised:
        read_options_file(path)
    assert str(raised.value).startswith(f"{tmp_path}/{said}".replace("{tmp}", str(tmp_path)))


def test_a_file_that_anybody_may_write_to(tmp_path: Path) -> None:
    path = write(tmp_path / "my.cnf", "[mysqld]\nx=1\n")
    path.chmod(0o666)
    assert my_print_defaults(path) == ""  # a server ignores the file with a warning
    with pytest.raises(OptionError, match="chmod o-w"):
        read_options_file(path)


def test_includes_nest_as_deep_as_in_a_server(tmp_path: Path) -> None:
    for depth in range(MAX_DEPTH + 1):
        write(tmp_path / f"{depth}.cnf", f"[mysqld]\nd{depth}\n!include {tmp_path / f'{depth + 1}.cnf'}\n")
    write(tmp_path / f"{MAX_DEPTH}.cnf", "[mysqld]\nbottom\n")
    assert options(tmp_path / "0.cnf")[-1] == ("bottom", None)
    assert printed(options(tmp_path / "0.cnf")) == my_print_defaults(tmp_path / "0.cnf")


# ------------------------------------------------------------------------------------------------ spellings

KNOWN = OptionNames(
    dict.fromkeys(["replicate-do-db", "replica-net-timeout", "retry-count", "port"], False)
    | dict.fromkeys(["verify-checksum", "skip-replica-start", "once"], True)
)


@pytest.mark.parametrize(
    ("spelled", "value", "found"),
    [
        ("replicate_do_db", "a", GivenOption("replicate-do-db", "a")),
        ("Replicate-DO_db", "a", GivenOption("replicate-do-db", "a")),
        ("replicate-do-db", None, GivenOption("replicate-do-db", None)),
        ("slave_net_timeout", "5", GivenOption("replica-net-timeout", "5")),
        ("loose-slave-net-timeout", "5", GivenOption("replica-net-timeout", "5")),
        ("master-retry-count", "5", GivenOption("retry-count", "5")),
        ("source_verify_checksum", "OFF", GivenOption("verify-checksum", False)),
        ("verify-checksum", None, GivenOption("verify-checksum", True)),
        ("skip-verify-checksum", None, GivenOption("verify-checksum", False)),
        ("disable_verify_checksum", "1", GivenOption("verify-checksum", False)),
        ("skip-verify-checksum", "0", GivenOption("verify-checksum", True)),
        ("enable-verify-checksum", "0", GivenOption("verify-checksum", False)),
        ("loose-enable-once", None, GivenOption("once", True)),
        ("skip-slave-start", None, GivenOption("skip-replica-start", True)),
        ("skip-slave-start", "false", GivenOption("skip-replica-start", False)),
        ("skip_skip_slave_start", None, GivenOption("skip-replica-start", False)),
        ("loose-nothing-of-ours", "1", None),
        ("loose-skip-port", None, None),
        ("Con_1.replicate_do_db", "a", GivenOption("replicate-do-db", "Con_1:a")),
        ("con.loose-replicate-do-db", "a", GivenOption("replicate-do-db", "con:a")),
    ],
)
def test_spellings(spelled: str, value: str | None, found: GivenOption | None) -> None:
    assert KNOWN.find(GivenOption(spelled, value)) == found
    assert (spelled in KNOWN) == (found is not None)


@pytest.mark.parametrize(
    "spelled", ["replicate-do-d", "skip-port", "nothing", "", "con.port", "skip-", "-port"]
)
def test_unknown_spellings(spelled: str) -> None:
    with pytest.raises(UnknownOption, match="unknown option"):
        KNOWN.find(GivenOption(spelled, "1"))
    assert spelled not in KNOWN


@pytest.mark.parametrize("spelled", ["replicat_do_dbs", "do-db", "do_db"])
def test_the_nearest_option_is_named(spelled: str) -> None:
    with pytest.raises(UnknownOption, match="did you mean 'replicate-do-db'"):
        KNOWN.find(GivenOption(spelled, "1"))


def test_no_hint_names_an_alias_of_an_option_that_the_command_lacks() -> None:
    # A slave has no --verify-checksum. The hint was the spelling that was refused.
    with pytest.raises(UnknownOption) as raised:
        OptionNames({"replica-net-timeout": False}).find(GivenOption("source_verify_checksum", "0"))
    assert "did you mean" not in str(raised.value)


def test_a_flag_is_on_or_off() -> None:
    with pytest.raises(OptionError, match="once=maybe: it is on or off"):
        KNOWN.find(GivenOption("once", "maybe"))


# ------------------------------------------------------------------------------------------------ commands

app = typer.Typer()


class SlaveSettings(Settings):
    server_id: int
    do_db: list[str] | None = setting(None, "--replicate-do-db")
    replica_net_timeout: float = 60.0
    verify_checksum: bool = True
    once: bool = False
    report_host: str = ""


class MasterSettings(Settings):
    binlogs: list[str] = setting(is_argument=True)
    port: int = 3307
    lower_case_table_names: int = 0


@app.command("slave", cls=OptionFileCommand)
@with_settings
def slave(given: SlaveSettings, option_files: OptionFiles) -> None:
    print(
        given.server_id,
        given.do_db or [],
        given.replica_net_timeout,
        given.verify_checksum,
        given.once,
        repr(given.report_host),
    )


@app.command("master", cls=OptionFileCommand)
@with_settings
def master(given: MasterSettings, option_files: OptionFiles) -> None:
    print(given.binlogs, given.port, given.lower_case_table_names)


def said(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, OptionError):
        raise done.exception
    return done.output.strip() if done.exit_code == 0 else f"exit {done.exit_code}"


FILE = """
[client]
port = 1
[mysqld]
port = 3306
server_id = 7
innodb_buffer_pool_size = 1G
once = 1
replicate-do-db = a
[dumpfilter-master]
port = 4000
[dumpfilter]
skip-verify-checksum
lower_case_table_names = 1
loose-future-option = 1
[mariadb-10.11]
con1.replicate_do_db = b
slave_net_timeout = 5
[dumpfilter-slave]
once
report-host = "host # 1"
"""


def test_a_file_comes_before_the_command_line(tmp_path: Path) -> None:
    file = f"--defaults-file={write(tmp_path / 'my.cnf', FILE)}"
    assert said("slave", file) == "7 ['a', 'con1:b'] 5.0 False True 'host # 1'"
    assert (
        said(
            "slave",
            "--server_id=8",
            "--replicate_do_db",
            "c",
            file,
            "--slave-net-timeout",
            "9",
            "--skip-once",
        )
        == "8 ['a', 'con1:b', 'c'] 9.0 False False 'host # 1'"
    )
    assert said("slave", file, "--verify-checksum", "--report-host", "--once") == (
        "7 ['a', 'con1:b'] 5.0 True True '--once'"
    )
    assert said("slave", file, "--no-verify-checksum", "--enable-verify-checksum", "--report_host=") == (
        "7 ['a', 'con1:b'] 5.0 True True ''"
    )
    assert said("master", file, "b.1", "--", "--port") == "['b.1', '--port'] 4000 1"
    assert said("slave") == "exit 2"  # --server-id is missing


def test_a_channel_of_the_command_line_has_its_value_in_the_next_word() -> None:
    words = said("slave", "--server-id=1", "--con1.replicate-do-db", "b", "--con2.replicate_do_db=c")
    assert words == "1 ['con1:b', 'con2:c'] 60.0 True False ''"


def test_the_extra_file_comes_after_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "my.cnf", FILE)
    extra = write(
        tmp_path / "extra.cnf", "[server]\nreplicate-do-db=x\n[dumpfilter-slave]\nserver-id=9\nonce=off\n"
    )
    both = ["--defaults-extra-file", str(extra), "--defaults-file", str(file)]
    assert said("slave", *both) == "9 ['a', 'con1:b', 'x'] 5.0 False False 'host # 1'"
    assert said("slave", both[0], both[1]) == "9 ['x'] 60.0 True False ''"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "[dumpfilter]\nreplicat-do-db=a",
            "2: unknown option 'replicat-do-db'; did you mean 'replicate-do-db'?",
        ),
        ("[dumpfilter-slave]\nport=1", "2: unknown option 'port'"),
        ("[dumpfilter-slvae]\nport=1", "2: unknown section [dumpfilter-slvae]: there are [dumpfilter], "),
        ("[dumpfilter_slave]\nport=1", "2: unknown section [dumpfilter_slave]: there are [dumpfilter], "),
        ("[mysqld]\nserver_id", "2: option 'server_id' requires an argument"),
        ("[mysqld]\nserver_id=many", "2: server-id: "),
        ("[dumpfilter]\nonce=maybe", "2: once=maybe: it is on or off"),
        ("[dumpfilter]\ndefaults-file=x", "2: defaults-file is for the command line"),
    ],
)
def test_errors_name_the_file_and_the_line(text: str, error: str, tmp_path: Path) -> None:
    path = write(tmp_path / "my.cnf", text)
    with pytest.raises(OptionError) as raised:
        said("slave", "--defaults-file", str(path))
    assert str(raised.value).startswith(f"{path}:{error}")
    assert raised.value.exit_code == 2


def test_a_wrong_value_that_the_command_line_replaces_is_not_looked_at(tmp_path: Path) -> None:
    path = write(tmp_path / "my.cnf", "[mysqld]\nserver_id=many")
    assert said("slave", "--defaults-file", str(path), "--server-id", "3").startswith("3 ")
    assert said("slave", "--defaults-file", str(path), "--server-id", "few") == "exit 2"


def test_no_file_is_read_unless_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "my.cnf", FILE)
    write(tmp_path / ".my.cnf", FILE)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MYSQL_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert said("slave", "--server-id=1") == "1 [] 60.0 True False ''"


def test_the_real_commands_take_files(tmp_path: Path) -> None:
    path = write(tmp_path / "my.cnf", "[dumpfilter]\nreplicate-do-db=a\nbinlog-do-dbs=a\n")
    for command in ("slave", "master"):
        done = subprocess.run(
            [sys.executable, "-m", "dumpfilter", command, "--defaults_file", str(path)],
            capture_output=True,
            text=True,
            env=os.environ | {"COLUMNS": "120"},
        )
        assert done.returncode == 2
        assert done.stderr.startswith(f"dumpfilter: {path}:3: unknown option 'binlog-do-dbs'")
