"""The reception over one connection: honest sources give equal files, and every lie is a typed error."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from dumpfilter.base.errors import (
    ConnectionLost,
    DumpfilterError,
    SourcePurged,
    SourceRefused,
    SourceReplaced,
    SourceStreamDamaged,
    TlsError,
)
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import generate
from dumpfilter.binlog.writer import make_event
from dumpfilter.index.fileset import BinlogSet, gtids_before
from dumpfilter.receiver.reception import Follower, FollowOptions
from dumpfilter.receiver.store import BinlogDirectory
from dumpfilter.receiver.url import parse_source_url
from tests.receiver.fake_source import (
    END,
    FakeSource,
    Payloads,
    artificial_rotate,
    description_event,
    error_packet,
    event_at,
    framed,
    greeting,
    heartbeat,
    packet,
    read_packet,
    result,
    result_head,
    small_set,
)


@pytest.fixture
def source() -> Iterator[FakeSource]:
    """A server with two small files."""
    made = FakeSource(small_set())
    yield made
    made.close()


def receive(source: FakeSource, directory: Path, options: str = "", *, attempts: int = 1) -> BinlogDirectory:
    """Receive into ``directory``, by default over one connection."""
    store = BinlogDirectory(directory)
    try:
        Follower(parse_source_url(source.url + options), store, FollowOptions(retries=attempts)).run()
    finally:
        store.close()
    return store


def stored(directory: Path) -> dict[str, bytes]:
    """Return the binlog files of a store, with the flag of the open file cleared."""
    binlogs = BinlogSet.open(directory)
    found = {}
    for name in binlogs.names:
        data = bytearray(binlogs.path(name).read_bytes())
        data[FLAGS_OFFSET] &= ~LOG_EVENT_BINLOG_IN_USE_F
        found[name] = bytes(data)
    return found


def test_the_files_are_those_of_the_source(source: FakeSource, tmp_path: Path) -> None:
    receive(source, tmp_path / "s")
    assert stored(tmp_path / "s") == source.files
    assert (tmp_path / "s/bin.index").read_text() == "./bin.000001\n./bin.000002\n"


def test_the_open_file_is_marked_as_in_use_and_a_closed_one_is_not(
    source: FakeSource, tmp_path: Path
) -> None:
    receive(source, tmp_path)
    flags = [(tmp_path / name).read_bytes()[FLAGS_OFFSET] for name in source.files]
    assert flags == [0, LOG_EVENT_BINLOG_IN_USE_F]


@pytest.mark.parametrize(
    ("version", "flag"), [("9.7.0-fake", 0), ("10.11.19-MariaDB-fake", LOG_EVENT_BINLOG_IN_USE_F)]
)
def test_the_file_of_a_crashed_server_keeps_its_flag_in_mariadb_alone(
    source: FakeSource, tmp_path: Path, version: str, flag: int
) -> None:
    """Real servers were asked: MySQL clears the flag at its next start, and MariaDB never does."""
    first = b"\xfebin" + description_event(version=version)
    first += event_at(len(first), EventType.XID, bytes(8))
    second = b"\xfebin" + description_event(created=2, version=version)
    source.files, source.version = {"bin.000001": first, "bin.000002": second}, version
    receive(source, tmp_path / "first", "?to=bin.000001")
    assert list(stored(tmp_path / "first")) == ["bin.000001"]
    receive(source, tmp_path, attempts=2)
    assert stored(tmp_path) == source.files
    assert (tmp_path / "bin.000001").read_bytes()[FLAGS_OFFSET] == flag


def test_binlogs_that_begin_anew_during_a_dump_are_noticed_at_the_next_file(
    source: FakeSource, tmp_path: Path
) -> None:
    """Real servers were asked: after RESET MASTER a dump goes on with the second file that the server then writes."""
    first = b"\xfebin" + description_event()
    first += event_at(len(first), EventType.XID, bytes(8))
    second = b"\xfebin" + description_event(created=3)
    anew = b"\xfebin" + description_event(version="9.7.0-anew") + first[4 + len(description_event()) :]
    source.files = {"bin.000001": first, "bin.000002": second}

    def begin_anew(payloads: list[bytes]) -> Payloads:
        source.files = {"bin.000001": anew, "bin.000002": second}
        return payloads

    source.change = begin_anew
    with pytest.raises(SourceReplaced, match="begins differently"):
        receive(source, tmp_path, attempts=2)
    assert stored(tmp_path) == {"bin.000001": first}


def test_binlogs_that_begin_anew_during_a_dump_are_no_purged_file(source: FakeSource, tmp_path: Path) -> None:
    """MySQL 9.7 and MariaDB 10.11 end a running dump with this error after RESET MASTER."""
    files = source.files

    def begin_anew(payloads: list[bytes]) -> Payloads:
        source.files = {"bin.000001": files["bin.000001"]}
        return [*payloads[:-1], error_packet(1236, "could not find next log; the first event '' at 4")]

    source.change = begin_anew
    with pytest.raises(
        SourceReplaced, match=r"bin\.000002: .*is not there; it has bin\.000001 to bin\.000001"
    ):
        receive(source, tmp_path, attempts=2)


def test_a_store_goes_on_at_its_last_event(source: FakeSource, tmp_path: Path) -> None:
    whole = source.files["bin.000002"]
    source.files["bin.000002"] = whole[:-31]
    receive(source, tmp_path)
    source.files["bin.000002"] = whole
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files
    assert source.asked == [("bin.000001", 4), ("bin.000002", len(whole) - 31 - 42)]


@pytest.mark.parametrize("size", range(5, 400, 13))
def test_a_torn_file_is_cut_and_goes_on(source: FakeSource, tmp_path: Path, size: int) -> None:
    receive(source, tmp_path)
    newest = tmp_path / "bin.000002"
    if size < len(source.files["bin.000001"]):
        size = max(size, 4 + len(description_event()))
    newest.write_bytes(newest.read_bytes()[:size])
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files


@pytest.mark.parametrize("size", [0, 4, 30])
@pytest.mark.parametrize("names", [["bin.000002"], ["bin.000001", "bin.000002"]])
def test_files_of_which_a_power_failure_left_no_event_come_again(
    source: FakeSource, tmp_path: Path, size: int, names: list[str]
) -> None:
    """Without syncs, the index may be on the disk before the files that it names."""
    receive(source, tmp_path)
    for name in names:
        os.truncate(tmp_path / name, size)
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files


def test_a_damaged_end_is_cut_and_comes_again(source: FakeSource, tmp_path: Path) -> None:
    receive(source, tmp_path)
    data = bytearray((tmp_path / "bin.000002").read_bytes())
    data[-60] ^= 1
    (tmp_path / "bin.000002").write_bytes(data)
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files


def test_a_file_that_a_crash_left_out_of_the_index_is_replaced(source: FakeSource, tmp_path: Path) -> None:
    receive(source, tmp_path, "?to=bin.000001")
    (tmp_path / "bin.000002").write_bytes(b"\xfebin half of an event")
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files


def test_from_and_to_choose_files(source: FakeSource, tmp_path: Path) -> None:
    source.files = small_set(4)
    receive(source, tmp_path, "?from=bin.000002&to=bin.000003")
    assert list(stored(tmp_path)) == ["bin.000002", "bin.000003"]
    asked = len(source.asked)
    receive(source, tmp_path, "?to=bin.000003")
    assert len(source.asked) == asked, "there is nothing to ask for"
    receive(source, tmp_path)
    assert list(stored(tmp_path)) == ["bin.000002", "bin.000003", "bin.000004"]


def test_a_user_who_may_not_list_the_files_fetches_them(source: FakeSource, tmp_path: Path) -> None:
    source.may_list = False
    receive(source, tmp_path)
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files


def test_a_purged_source_goes_on_with_the_next_file_if_nothing_is_missing(
    source: FakeSource, tmp_path: Path
) -> None:
    source.files = small_set(3)
    receive(source, tmp_path, "?to=bin.000002")
    whole = dict(source.files)
    del source.files["bin.000001"], source.files["bin.000002"]
    receive(source, tmp_path)
    assert stored(tmp_path) == whole


@pytest.mark.parametrize("style", ["mysql", "mariadb"])
def test_a_purged_source_whose_next_file_follows_other_gtids_is_refused(
    source: FakeSource, tmp_path: Path, style: Family
) -> None:
    binlogs = BinlogSet.open(generate(tmp_path / "made", 300_000, style=style, file_size=100_000).index)
    source.version = "10.11.19-MariaDB-fake" if style == "mariadb" else source.version
    source.files = {name: binlogs.path(name).read_bytes() for name in binlogs.names[:3]}
    receive(source, tmp_path / "s", "?to=bin.000002")
    before = stored(tmp_path / "s")
    for name in before:
        del source.files[name]
    gtids = gtids_before(binlogs.file("bin.000003")).logged
    assert gtids
    words = ("Gtid_list", f"[{gtids}]") if style == "mariadb" else ("Previous_gtids", str(gtids))
    ends = ["bin.000003", "4", words[0], "1", "4", words[1]]
    anew = [*ends[:5], words[1].replace(str(gtids.count()), "5")]
    question = "SHOW BINLOG EVENTS IN 'bin.000003'"
    source.answers[question] = lambda: [result(["a"] * 6, [anew])]
    with pytest.raises(SourceReplaced, match=r"bin\.000003 does not follow .*another directory"):
        receive(source, tmp_path / "s")
    assert stored(tmp_path / "s") == before
    source.answers[question] = lambda: [result(["a"] * 6, [ends])]
    receive(source, tmp_path / "s")
    assert list(stored(tmp_path / "s")) == ["bin.000001", "bin.000002", "bin.000003"]


@pytest.mark.parametrize("may_list", [True, False])
def test_a_purged_source_is_an_error_when_events_are_missing(
    source: FakeSource, tmp_path: Path, may_list: bool
) -> None:
    source.files = small_set(4)
    receive(source, tmp_path, "?to=bin.000001")
    source.files = {name: source.files[name] for name in ("bin.000003", "bin.000004")}
    source.may_list = may_list
    with pytest.raises(SourcePurged, match="keep binlogs longer"):
        receive(source, tmp_path)


def test_a_source_with_another_uuid_is_refused(source: FakeSource, tmp_path: Path) -> None:
    receive(source, tmp_path)
    source.uuid = "99999999-2222-3333-4444-555555555555"
    with pytest.raises(SourceReplaced, match="fetch into another directory"):
        receive(source, tmp_path)


def _shorter(files: dict[str, bytes]) -> dict[str, bytes]:
    return files | {"bin.000002": files["bin.000002"][:-31]}


def _began_anew(files: dict[str, bytes]) -> dict[str, bytes]:
    return {"bin.000001": files["bin.000001"]}


def _other_event(files: dict[str, bytes]) -> dict[str, bytes]:
    data = files["bin.000002"]
    return files | {"bin.000002": data[:-31] + event_at(len(data) - 31, EventType.XID, b"another!")}


def _other_begin(files: dict[str, bytes]) -> dict[str, bytes]:
    data = bytearray(files["bin.000002"])
    size = len(description_event())
    data[4:8] = struct.pack("<I", 77)
    data[size : 4 + size] = zlib.crc32(data[4:size]).to_bytes(4, "little")
    return files | {"bin.000002": bytes(data)}


@pytest.mark.parametrize("may_list", [True, False])
@pytest.mark.parametrize("change", [_shorter, _began_anew, _other_event, _other_begin])
def test_a_source_that_began_its_binlogs_anew_is_refused(
    source: FakeSource,
    tmp_path: Path,
    change: Callable[[dict[str, bytes]], dict[str, bytes]],
    may_list: bool,
) -> None:
    receive(source, tmp_path)
    before = stored(tmp_path)
    source.files, source.may_list = change(source.files), may_list
    with pytest.raises((SourceReplaced, SourcePurged), match="another directory"):
        receive(source, tmp_path)
    assert stored(tmp_path) == before


def test_other_base_names_are_refused(source: FakeSource, tmp_path: Path) -> None:
    receive(source, tmp_path)
    source.files = {name.replace("bin", "log"): data for name, data in small_set().items()}
    with pytest.raises(SourceReplaced, match=r"the source's file is not there; it has log\.000001"):
        receive(source, tmp_path)


# The lies of a hostile source.


def _with(at: int, payload: bytes) -> Callable[[list[bytes]], Payloads]:
    return lambda payloads: [*payloads[:at], payload, *payloads[at + 1 :]]


def _flipped(payloads: list[bytes]) -> Payloads:
    event = bytearray(payloads[3])
    event[-10] ^= 1
    return [*payloads[:3], bytes(event), *payloads[4:]]


def _sized(payload: bytes, size: int) -> bytes:
    return payload[:10] + struct.pack("<I", size) + payload[14:]


def _backwards(payloads: list[bytes]) -> Payloads:
    return [*payloads[:-1], b"\0" + artificial_rotate("bin.000001"), *payloads[1:]]


def _to(name: str, position: int = 4) -> Callable[[list[bytes]], Payloads]:
    return lambda payloads: [
        *payloads[:-1],
        b"\0" + artificial_rotate(name, position),
        b"\0" + description_event(),
    ]


LIES: dict[str, Callable[[list[bytes]], Payloads]] = {
    "empty": lambda payloads: [b""],
    "short packet": _with(3, b"\0\1\2"),
    "unknown first byte": _with(3, b"\7" + bytes(40)),
    "length too great": lambda p: [*p[:3], _sized(p[3], 1 << 30), *p[4:]],
    "length too small": lambda p: [*p[:3], _sized(p[3], 19), *p[4:]],
    "length of nothing": lambda p: [*p[:3], _sized(p[3], 0), *p[4:]],
    "description of a wrong length": lambda p: [p[0], _sized(p[1], 7), *p[2:]],
    "wrong checksum": _flipped,
    "an event is missing": lambda p: [*p[:3], *p[4:]],
    "an event comes twice": lambda p: [*p[:4], *p[3:]],
    "no description": lambda p: [p[0], *p[2:]],
    "no rotate": lambda p: p[1:],
    "two descriptions": lambda p: [*p[:2], p[1], *p[2:]],
    "damaged description": _with(1, b"\0" + description_event()[:-1] + b"x"),
    "description of another format": _with(1, b"\0" + make_event(EventType.FORMAT_DESCRIPTION, bytes(100))),
    "file that was not asked for": _with(0, b"\0" + artificial_rotate("bin.000001", 158)),
    "path": _with(0, b"\0" + artificial_rotate("../../x.000001")),
    "path upwards": _to("../bin.000003"),
    "absolute path": _to("/tmp/bin.000003"),
    "no number": _to("bin"),
    "directory": _to(".."),
    "NUL": _to("bin\0.000003"),
    "control character": _to("bin\x1b[2J.000003"),
    "absurdly long": _to("b" * 300 + ".000003"),
    "absurdly long, in a large packet": _to("b" * 100_000 + ".000003"),
    "our own files": _to("dumpfilter-source.json"),
    "begins inside": _to("bin.000003", 500),
    "goes back": _backwards,
    "goes back to the same file": _to("bin.000002"),
    "other base": _to("log.000003"),
    "rotate to another file": lambda p: [
        *p[:-1],
        b"\0" + event_at(len(small_set()["bin.000002"]), EventType.ROTATE, encode_rotate(Rotate("bin.000003", 4))),
        b"\0" + artificial_rotate("bin.000004"),
    ],
    "event after the close": lambda p: [
        *p[:-1],
        b"\0" + event_at(len(small_set()["bin.000002"]), EventType.STOP, b""),
        b"\0" + event_at(len(small_set()["bin.000002"]) + 23, EventType.XID, bytes(8)),
    ],
    "rotate with a wrong place": lambda p: [*p[:-1], b"\0" + event_at(77, EventType.STOP, b"")],
    "heartbeat from elsewhere": lambda p: [*p[:-1], b"\0" + heartbeat("bin.000002", 77), END],
    "error without an error": _with(3, b"\xff"),
    "control packets without end": lambda p: [*p[:3], *[b"\0" + heartbeat("x", 9)] * 100_010],
}  # fmt: skip


def _everything_under(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_a_typed_error_and_nothing_is_written_elsewhere(
    source: FakeSource, tmp_path: Path, lie: str
) -> None:
    source.change = LIES[lie]
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    with pytest.raises((SourceStreamDamaged, SourceReplaced)) as caught:
        receive(source, inside)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1500
    allowed = {"dumpfilter-source.json", "dumpfilter-source.lock", "bin.index", "bin.uuid", *source.files}
    assert _everything_under(tmp_path) <= {"a", "a/b", *(f"a/b/{name}" for name in allowed)}
    for name, data in (stored(inside) if (inside / "bin.index").exists() else {}).items():
        assert source.files[name].startswith(data) or lie in (
            "event after the close",
            "rotate to another file",
        )
    source.change = lambda payloads: payloads
    if lie not in ("event after the close", "rotate to another file"):
        receive(source, inside)
        assert stored(inside) == source.files


def _numbered(numbers: Callable[[int], int]) -> Callable[[list[bytes]], Iterable[bytes]]:
    return lambda payloads: [packet(each, numbers(at)) for at, each in enumerate(payloads)]


@pytest.mark.parametrize(
    "numbers", [lambda at: at, lambda at: at + 2, lambda at: at + 1 + (at > 4), lambda at: 1]
)
def test_a_wrong_sequence_is_an_error(
    source: FakeSource, tmp_path: Path, numbers: Callable[[int], int]
) -> None:
    source.raw = _numbered(numbers)
    with pytest.raises(SourceStreamDamaged, match=r"packet number .* was due"):
        receive(source, tmp_path)


def large_file(size: int, *, checksum: bool = True) -> bytes:
    """Return a binlog file with one event, whose body has ``size`` bytes."""
    data = b"\xfebin" + description_event(checksum=checksum)
    return data + event_at(len(data), EventType.XID, bytes(size), checksum=checksum)


LARGE = [
    ((4 << 20) - 30, True),
    (5 << 20, False),
    (0xFFFFFF - 25, True),
    (0xFFFFFF - 24, True),
    (0xFFFFFF - 20, False),
    (2 * 0xFFFFFF - 24, True),
]
"""The sizes of large events, around the lengths of packets, and whether the binlog has checksums."""


def receive_a_large_event(size: int, checksum: bool) -> None:
    """Receive one large event from a server that has its bytes ready, and print the peak of the memory, bytes."""
    source = FakeSource({"bin.000001": large_file(size, checksum=checksum)})
    source.ready = framed([*source.honest("bin.000001", 4), END])
    with tempfile.TemporaryDirectory() as directory:
        tracemalloc.start()
        receive(source, Path(directory))
        print(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert stored(Path(directory)) == source.files
    source.close()


def test_large_events_take_no_more_memory_than_small_ones() -> None:
    """The memory is measured in a process of its own. The first reception loads kernels, and does not count."""
    script = (
        "from tests.receiver import test_reception_slow as module\n"
        "for large in (module.LARGE[0], *module.LARGE): module.receive_a_large_event(*large)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    _, *peaks = (int(line) for line in done.stdout.splitlines() if line.isdigit())
    assert len(peaks) == len(LARGE)
    assert max(peaks) < 12 << 20, peaks


def _cut_event(payloads: list[bytes]) -> Iterable[bytes]:
    yield framed(payloads[:2])
    yield packet(payloads[2][:0xFFFFFF], 3)[: 4 + 0xFFFFFF] + packet(b"short", 4)


def _endless_event(payloads: list[bytes]) -> Iterable[bytes]:
    yield framed(payloads[:2])
    head = b"\xff\xff\xff"
    yield head + b"\3" + payloads[2][:0xFFFFFF]
    for number in range(4, 12):
        yield head + bytes([number]) + bytes(0xFFFFFF)


def _wrong_piece(payloads: list[bytes]) -> Iterable[bytes]:
    whole = bytearray(framed(payloads))
    whole[-100] ^= 1
    yield bytes(whole)


def _huge_length(payloads: list[bytes]) -> Iterable[bytes]:
    yield framed(payloads[:2])
    yield b"\xff\xff\xff\3" + _sized(payloads[2], 0xFFFFFFF0)[:0xFFFFFF]


def _wrong_sequence_inside(payloads: list[bytes]) -> Iterable[bytes]:
    yield framed(payloads[:2])
    yield b"\xff\xff\xff\3" + payloads[2][:0xFFFFFF] + packet(payloads[2][0xFFFFFF:], 9)


@pytest.mark.parametrize(
    "lie", [_cut_event, _endless_event, _wrong_piece, _huge_length, _wrong_sequence_inside]
)
def test_a_lie_inside_a_large_event_leaves_nothing_of_the_event(
    source: FakeSource, tmp_path: Path, lie: Callable[[list[bytes]], Iterable[bytes]]
) -> None:
    source.files = {"bin.000001": large_file(20_000_000)}
    source.raw = lie
    tracemalloc.start()
    try:
        with pytest.raises(SourceStreamDamaged):
            receive(source, tmp_path)
    finally:
        tracemalloc.stop()
    assert stored(tmp_path)["bin.000001"] == source.files["bin.000001"][: 4 + len(description_event())]
    source.raw = None
    receive(source, tmp_path)
    assert stored(tmp_path) == source.files


# Logins.


def test_an_error_of_the_source_names_the_cure(source: FakeSource, tmp_path: Path) -> None:
    source.change = lambda payloads: [error_packet(1227, "Access denied; you need REPLICATION SLAVE")]
    with pytest.raises(SourceRefused, match="GRANT REPLICATION SLAVE, REPLICATION CLIENT"):
        receive(source, tmp_path)


def test_a_login_refused_without_tls_names_require_ssl(source: FakeSource, tmp_path: Path) -> None:
    source.login = lambda connection: connection.sendall(
        packet(error_packet(1045, "Access denied for user 'repl' (using password: YES)"), 0)
    )
    with pytest.raises(SourceRefused, match=r"check the user.* requires TLS \(REQUIRE SSL\)"):
        receive(source, tmp_path)


@pytest.mark.parametrize(
    "garbage",
    [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(100), b"\5\0\0\0\x0a9.7", b""],
)
def test_another_program_at_the_port_is_a_typed_error(
    source: FakeSource, tmp_path: Path, garbage: bytes
) -> None:
    source.login = lambda connection: connection.sendall(garbage)
    with pytest.raises(DumpfilterError) as caught:
        receive(source, tmp_path)
    assert isinstance(caught.value, SourceStreamDamaged | ConnectionLost | TlsError)


def test_the_password_is_never_sent_in_the_clear(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUMPFILTER_SOURCE_PASSWORD", "Xq7secret")
    heard = []

    def login(connection: object) -> None:
        connection.sendall(packet(greeting("9.7.0"), 0))  # type: ignore[attr-defined]
        heard.append(read_packet(connection))  # type: ignore[arg-type]
        connection.sendall(packet(b"\xfemysql_clear_password\0", 2))  # type: ignore[attr-defined]
        heard.append(connection.recv(4096))  # type: ignore[attr-defined]

    source.login = login  # type: ignore[assignment]
    with pytest.raises(TlsError, match="never sends; give the account another plugin"):
        receive(source, tmp_path)
    assert not any(b"Xq7secret" in each for each in heard)


def test_tls_is_required_when_the_address_says_so(source: FakeSource, tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="offers no TLS"):
        receive(source, tmp_path, "?tls=required")
    assert not source.statements


def test_an_answer_without_end_is_an_error(source: FakeSource, tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        yield framed(result_head(["Log_name", "File_size"]))
        number = 4
        row = b"\xfa" + b"b" * 250 + b"\xfa" + b"1" * 250
        while True:
            yield framed([row] * 256, number + 1)

    source.answers["SHOW BINARY LOGS"] = endless
    with pytest.raises(SourceStreamDamaged, match="more than"):
        receive(source, tmp_path)
