"""Real processes over real gRPC: a master, slaves, and kill -9 for all of them."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import MysqlGtidSet, encode_previous_gtids
from dumpfilter.binlog.writer import make_event, rebase
from dumpfilter.errors import PositionError
from dumpfilter.filter import Filter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.slave.channel import Channel, ChannelOptions
from dumpfilter.slave.io_thread import SourceOptions
from dumpfilter.slave.targets import SummaryTarget
from tests.binlog_tools import complaints

DUMPFILTER = [sys.executable, "-c", "from dumpfilter.cli import main; main()"]
LONELY_SLAVE = [*DUMPFILTER, "slave", "--master", "127.0.0.1:1", "--server-id", "7"]

# A process that has everything imported and forks a `dumpfilter` for each line it reads: a start costs
# milliseconds, and the children are processes as any other.
LAUNCHER = """
import json, os, signal, sys
import grpc, dumpfilter.master.process, dumpfilter.slave.process, dumpfilter.slave.report
from dumpfilter.cli import main
for line in sys.stdin:
    order = json.loads(line)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        log = os.open(order["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.dup2(log, 1); os.dup2(log, 2)
        sys.argv = ["dumpfilter", *order["argv"]]
        code = 70
        try:
            main(); code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            with open(order["log"] + ".exit", "w") as note:
                note.write(str(code))
            os._exit(code)
    print(pid, flush=True)
"""


class Launcher:
    """Starts and kills `dumpfilter` processes in a directory, and counts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.running: dict[str, int] = {}
        self.port = 0

    def start(self, name: str, *argv: str) -> int:
        (self.directory / f"{name}.log.exit").unlink(missing_ok=True)
        order = {"argv": argv, "log": str(self.directory / f"{name}.log")}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        # a handle, not a number: a process that ended by itself must not be mistaken for a later one
        with contextlib.suppress(ProcessLookupError):
            self.running[name] = os.pidfd_open(pid)
        return pid

    def start_master(self, binlogs: Path) -> None:
        note = self.directory / "port"
        note.unlink(missing_ok=True)
        self.start("master", "master", str(binlogs), "--port", str(self.port), "--port-file", str(note))
        deadline = time.monotonic() + 30
        while not note.exists():
            assert time.monotonic() < deadline, self.log("master")
            time.sleep(0.005)
        self.port = int(note.read_text())

    def start_slave(self, name: str, *options: str) -> int:
        return self.start(
            name,
            *("slave", "--master", f"127.0.0.1:{self.port}", "--relay-dir", str(self.directory / name)),
            *("--server-id", str(100 + sum(name.encode())), "--connect-retry", "0.1", "--summary", "json"),
            *("--summary-file", str(self.directory / f"{name}.json"), *options),
        )

    def wait(self, name: str, seconds: float = 60) -> int:
        """The exit code."""
        note = self.directory / f"{name}.log.exit"
        deadline = time.monotonic() + seconds
        while not note.exists() or not note.read_text():
            assert time.monotonic() < deadline, f"{name} hangs: {self.log(name)}"
            time.sleep(0.01)
        os.close(self.running.pop(name))
        return int(note.read_text())

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL, the process is gone when this returns."""
        handle = self.running[name]
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        if number == signal.SIGKILL:
            assert select.select([handle], [], [], 30)[0], f"{name} does not die"
            os.close(self.running.pop(name))

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()[-2000:]

    def report(self, name: str) -> dict:
        return json.loads((self.directory / f"{name}.json").read_text())

    def master_info(self, name: str) -> dict:
        try:
            return json.loads((self.directory / name / "master.info").read_bytes())
        except FileNotFoundError:
            return {"source_file": "", "source_position": 0, "relay_offset": 0}

    def relay_logs(self, name: str) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in sorted((self.directory / name).glob("relay-bin.*"))}

    def close(self) -> None:
        for handle in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def masters_of(tmp_path_factory, data):
    """The address of a master process for a recording; each started once."""
    directory = tmp_path_factory.mktemp("masters")
    launchers: dict[str, Launcher] = {}

    def address(folder: str) -> str:
        if folder not in launchers:
            place = directory / folder
            place.mkdir()
            launchers[folder] = Launcher(place)
            launchers[folder].start_master(data / folder)
        return f"127.0.0.1:{launchers[folder].port}"

    yield address
    for started in launchers.values():
        started.close()


@pytest.fixture
def launcher(tmp_path):
    made = Launcher(tmp_path)
    yield made
    made.close()


def transactions_of(events: list[bytes]) -> list[bytes]:
    """Row transactions of a MySQL recording, from the GTID event to Xid, as bytes."""
    found, begun = [], None
    for event in events:
        kind = event[4]
        if kind == EventType.GTID:
            begun = [event]
        elif begun is not None:
            begun.append(event)
            if kind == EventType.XID:
                if any(e[4] == EventType.TABLE_MAP for e in begun):
                    found.append(b"".join(begun))
                begun = None
    return found


class GrowingBinlog:
    """A binlog set as a running server writes it: transactions without end, torn at any byte, rotated."""

    def __init__(self, directory: Path, masters, *, file_size: int, seed: int, server: int = 0) -> None:
        directory.mkdir()
        self.directory = directory
        self.file_size = file_size
        self.transactions = 0
        recorded = masters.recorded("mysql-row")
        self._description = recorded[server].format_description
        events = [e for file in recorded for t in file.transactions for e in t.events]
        self._templates = [t for t in transactions_of(events) if len(t) < 3000]
        self._uuid = self._templates[0][20:36]
        self._random = random.Random(seed)
        self._number = 0
        self._begin_file()

    @property
    def files(self) -> list[Path]:
        return [self.directory / f"bin.{n:06d}" for n in range(1, self._number + 1)]

    def _begin_file(self) -> None:
        self._number += 1
        self._file = self.files[-1].open("wb", buffering=0)
        before = MysqlGtidSet()
        if self.transactions:
            before.add_range((self._uuid, ""), 1, self.transactions)
        previous = make_event(EventType.PREVIOUS_GTIDS, encode_previous_gtids(before), server_id=11)
        self._file.write(b"\xfebin" + rebase(self._description + previous, 4, checksum=True))
        beside = self.directory / "bin.index.tmp"
        beside.write_text("".join(f"./{path.name}\n" for path in self.files))
        beside.rename(self.directory / "bin.index")

    def write(self, count: int, *, torn: bool) -> None:
        """Append transactions; ``torn``: in two writes each, with a pause between."""
        for _ in range(count):
            self.transactions += 1
            events = bytearray(self._random.choice(self._templates))
            events[36:44] = self.transactions.to_bytes(8, "little")
            data = bytes(rebase(events, self._file.tell(), checksum=True))
            if torn:
                cut = self._random.randrange(1, len(data))
                self._file.write(data[:cut])
                time.sleep(0.0005)
                self._file.write(data[cut:])
            else:
                self._file.write(data)
            if self._file.tell() > self.file_size:
                self._rotate()

    def _rotate(self) -> None:
        body = (4).to_bytes(8, "little") + f"bin.{self._number + 1:06d}".encode()
        self._file.write(
            rebase(make_event(EventType.ROTATE, body, server_id=11), self._file.tell(), checksum=True)
        )
        self._file.close()
        self._begin_file()

    def close(self) -> None:
        self._file.close()


FOLDERS = [
    f"{server}-{kind}"
    for server in ("mysql", "mariadb")
    for kind in ("row", "mixed", "statement", "statement-kinds")
]
CASES = json.loads((Path(__file__).parents[1] / "oracle" / "data" / "oracle" / "cases.json").read_text())


def run_slave(address: str, directory: Path, options: list[str], **source) -> Channel:
    """A slave in this process, once."""
    on_master, apply = source.pop("filter_on_master", True), source.pop("apply", True)
    slave = Channel(
        ChannelOptions(
            source=SourceOptions(
                address=address,
                server_id=1 + zlib.crc32(bytes(directory)) % 10**9,
                uuid="",
                once=True,
                **source,
            ),
            relay_dir=directory,
            rules=Filter.from_options(options).rules,
            filter_on=FilterOn.BOTH if on_master else FilterOn.SLAVE,
            apply=apply,
        ),
        SummaryTarget(),
    )
    slave.start()
    slave.wait()
    return slave


def read_by_real_servers(directory: Path, folder: str) -> None:
    """``--verify-binlog-checksum`` of the family that wrote the source (and of MariaDB where it can)."""
    names = [p.name for p in sorted(directory.glob("relay-bin.0*"))]
    if folder != "mysql-mixed":  # MariaDB knows no compressed transactions of MySQL
        tool = ["mariadb-binlog", "--verify-binlog-checksum"]
        run = subprocess.run([*tool, *(directory / name for name in names)], capture_output=True, check=False)
        assert run.returncode == 0, run.stderr[-500:]
        assert b"ERROR" not in run.stderr
    assert complaints([directory / name for name in names], folder.partition("-")[0]) == ""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_law(masters_of, tmp_path, folder, case):
    """Filtered on the master or not, the slave ends the same: summary, position, GTID set."""
    address, options = masters_of(folder), CASES[case]
    filtered = run_slave(address, tmp_path / "filtered", options, chunk_size=1000)
    full = run_slave(address, tmp_path / "full", options, filter_on_master=False)
    assert filtered.relay_log_info.target == full.relay_log_info.target
    for field in ("source_file", "source_position", "executed"):
        assert getattr(filtered.relay_log_info, field) == getattr(full.relay_log_info, field)
    assert filtered.master_info.retrieved == full.master_info.retrieved == full.relay_log_info.executed
    assert full.received.counts["events_dropped"] == 0
    assert filtered.received.bytes_received <= full.received.bytes_received
    read_by_real_servers(tmp_path / "filtered", folder)


@pytest.mark.parametrize("folder", ["mysql-row", "mariadb-row", "mysql-mixed"])
@pytest.mark.parametrize("chunk_size", [1, 300, 5000])
def test_chunk_size_leaves_no_trace(masters_of, tmp_path, folder, chunk_size):
    options = ["--replicate-wild-ignore-table=logs.%"]
    small = run_slave(masters_of(folder), tmp_path / "small", options, chunk_size=chunk_size)
    run_slave(masters_of(folder), tmp_path / "large", options)
    for path in (tmp_path / "large").glob("relay-bin.*"):
        assert (tmp_path / "small" / path.name).read_bytes() == path.read_bytes()
    assert small.received.chunks > 3


@pytest.mark.parametrize("folder", ["mysql-row", "mariadb-row"])
def test_auto_position(masters_of, tmp_path, folder):
    first = run_slave(masters_of(folder), tmp_path / "s", [], auto_position=True)
    again = run_slave(masters_of(folder), tmp_path / "s", [], auto_position=True)
    assert again.relay_log_info == first.relay_log_info
    other = run_slave(masters_of(f"{folder.split('-')[0]}-row"), tmp_path / "t", [])
    assert other.relay_log_info.target == first.relay_log_info.target


def test_another_master_by_gtid_set(launcher, masters, tmp_path):
    """The second master has the same transactions and more, in other files that have the same names."""
    old = GrowingBinlog(tmp_path / "old", masters, file_size=30_000, seed=3)
    old.write(300, torn=False)
    new = GrowingBinlog(tmp_path / "new", masters, file_size=70_000, seed=3, server=1)
    new.write(700, torn=False)
    launcher.start_master(old.directory)
    run_slave(f"127.0.0.1:{launcher.port}", tmp_path / "s", [], auto_position=True)
    launcher.kill("master")
    launcher.start_master(new.directory)
    moved = run_slave(f"127.0.0.1:{launcher.port}", tmp_path / "s", [], auto_position=True)
    whole = run_slave(f"127.0.0.1:{launcher.port}", tmp_path / "whole", [])
    assert moved.received.counts["transactions_read"] < 700
    assert moved.relay_log_info.target == whole.relay_log_info.target
    assert moved.relay_log_info.executed == whole.relay_log_info.executed
    assert moved.relay_log_info.executed.endswith(":1-700")
    assert moved.relay_log_info.source_position == whole.relay_log_info.source_position
    again = run_slave(f"127.0.0.1:{launcher.port}", tmp_path / "s", [], auto_position=True)
    assert again.relay_log_info == moved.relay_log_info


def test_io_thread_only(masters_of, tmp_path):
    fetched = run_slave(masters_of("mariadb-row"), tmp_path / "s", [], apply=False)
    assert fetched.relay_log_info.relay_file == ""
    assert fetched.master_info.retrieved == "0-11-74"
    later = run_slave(masters_of("mariadb-row"), tmp_path / "s", [])
    whole = run_slave(masters_of("mariadb-row"), tmp_path / "whole", [])
    assert later.received.bytes_received == 0
    assert later.relay_log_info == whole.relay_log_info


def test_start_position(masters_of, tmp_path):
    whole = run_slave(masters_of("mysql-row"), tmp_path / "whole", [])
    part = run_slave(
        masters_of("mysql-row"), tmp_path / "part", [], start_file="bin.000002", start_position=4
    )
    assert part.relay_log_info.source_position == whole.relay_log_info.source_position
    assert part.relay_log_info.executed != whole.relay_log_info.executed
    relayed = (tmp_path / "part" / "relay-bin.000001").read_bytes()
    assert relayed == (tmp_path / "whole" / "relay-bin.000002").read_bytes()
    with pytest.raises(PositionError, match=r"bin.000002: at 500:"):
        run_slave(masters_of("mysql-row"), tmp_path / "bad", [], start_file="bin.000002", start_position=500)


KILLS = 100


def test_a_hundred_kills(launcher, masters, tmp_path):
    """Relay logs end byte for byte as without the kills, and so do summary, position and GTID set.

    The binlog grows all the time, so no stream ever comes to an end before the last kill. A kill counts as
    mid-stream when, since the kill before, the victim (for the master: a slave) had recorded a new position.
    KILL_SEED makes other moments.
    """
    rng = random.Random(int(os.environ.get("KILL_SEED", "20261121")))
    binlog = GrowingBinlog(tmp_path / "binlog", masters, file_size=1 << 20, seed=7)
    binlog.write(2000, torn=False)
    growing = threading.Event()

    def grow():
        while not growing.wait(0.01):
            binlog.write(8, torn=True)

    writer = threading.Thread(target=grow)
    slaves = {"some": ["--replicate-do-db=shop"], "all": []}

    def options(name):
        return [*slaves[name], "--chunk-size", str(rng.choice([97, 400, 3000]))]

    writer.start()
    counted = {"slave": 0, "master": 0, "mid_stream": 0, "beyond_the_record": 0, "files": 0}
    try:
        launcher.start_master(binlog.directory)
        for name in slaves:
            launcher.start_slave(name, *options(name))
        for _ in range(KILLS):
            victim = rng.choice(["some", "all", "all", "some", "master"])
            watched = [victim] if victim in slaves else list(slaves)
            before = {name: launcher.master_info(name) for name in watched}

            def moved(watched=watched, before=before):
                return any(launcher.master_info(name) != before[name] for name in watched)

            if rng.random() < 0.85:  # else: at once, in the middle of starting
                deadline = time.monotonic() + 20
                while not moved():
                    assert time.monotonic() < deadline, "".join(map(launcher.log, ["master", *slaves]))
                    time.sleep(0.002)
            time.sleep(rng.random() * 0.05)
            launcher.kill(victim)
            counted["mid_stream"] += moved()
            if victim in slaves:
                counted["slave"] += 1
                info = launcher.master_info(victim)
                logs = launcher.relay_logs(victim)
                last = info.get("relay_file")
                beyond = last in logs and len(logs[last]) > info["relay_offset"]
                counted["beyond_the_record"] += beyond
                launcher.start_slave(victim, *options(victim))
            else:
                counted["master"] += 1
                launcher.start_master(binlog.directory)
    finally:
        growing.set()
        writer.join()
    binlog.close()
    counted["files"] = len(binlog.files)
    print(counted, binlog.transactions, "transactions")
    assert counted["slave"] + counted["master"] == KILLS
    assert counted["mid_stream"] >= 0.7 * KILLS, counted
    assert counted["master"] >= 10
    assert counted["beyond_the_record"] >= 5, counted

    for name in slaves:
        launcher.kill(name)
        launcher.start_slave(name, *slaves[name], "--once")
        launcher.start_slave(f"{name}-whole", *slaves[name], "--once")
    for name in [*slaves, *(f"{name}-whole" for name in slaves)]:
        assert launcher.wait(name) == 0, launcher.log(name)
    for name in slaves:
        whole, killed = launcher.relay_logs(f"{name}-whole"), launcher.relay_logs(name)
        assert list(killed) == list(whole)
        for file in whole:
            assert killed[file] == whole[file], file
        for key in ("summary", "position", "gtid_set", "retrieved_gtid_set", "relay_log"):
            assert launcher.report(name)[key] == launcher.report(f"{name}-whole")[key], key
        assert launcher.report(name)["gtid_set"].endswith(f":1-{binlog.transactions}")
        assert launcher.report(name)["position"]["file"] == binlog.files[-1].name
    names = [str(tmp_path / "some" / file) for file in launcher.relay_logs("some") if file[-1].isdigit()]
    run = subprocess.run(
        ["mariadb-binlog", "--verify-binlog-checksum", *names],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    assert run.returncode == 0
    assert b"ERROR" not in run.stderr


def test_ctrl_c_ends_both_sides_in_order(launcher, data):
    launcher.start_master(data / "mysql-row")
    launcher.start_slave("s")
    deadline = time.monotonic() + 20
    while launcher.master_info("s")["source_file"] != "bin.000003":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    launcher.kill("s", signal.SIGINT)
    assert launcher.wait("s") == 0
    # the applier stops after the transaction it was in, the next start goes on there
    assert launcher.report("s")["retrieved_gtid_set"].endswith(":1-74")
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 0
    assert launcher.report("s")["gtid_set"].endswith(":1-74")
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    assert "Traceback" not in launcher.log("s") + launcher.log("master")


def test_two_slaves_in_one_directory(launcher, data):
    launcher.start_master(data / "mysql-row")
    first = launcher.start_slave("s")
    deadline = time.monotonic() + 20
    while launcher.master_info("s")["source_file"] != "bin.000003":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = subprocess.run(
        [*LONELY_SLAVE, "--relay-dir", launcher.directory / "s"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"another slave works here (process {first})" in second.stderr


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--replicate-do-table=nodot"], 2, "--replicate-do-table=nodot"),
        (["--server-id", "0"], 2, "--server-id=0"),
        (["--start-position", "100"], 2, "--start-position needs --start-file"),
        (["--retry-count", "2"], 3, "127.0.0.1:1 cannot be reached after 2 attempts"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(tmp_path, options, code, text):
    run = subprocess.run(
        [*LONELY_SLAVE, "--relay-dir", tmp_path / "s", "--connect-retry", "0.1", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code
    assert text in run.stderr.splitlines()[-1]
    assert "Traceback" not in run.stderr


def copied(data: Path, folder: str, directory: Path) -> Path:
    target = directory / "binlog"
    shutil.copytree(data / folder, target)
    return target


def test_a_damaged_binlog_stops_the_slave_with_file_and_position(launcher, data, tmp_path):
    binlog = copied(data, "mysql-row", tmp_path)
    raw = bytearray((binlog / "bin.000002").read_bytes())
    raw[5000] ^= 4
    (binlog / "bin.000002").write_bytes(raw)
    launcher.start_master(binlog)
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 1
    assert "bin.000002: at " in launcher.log("s").splitlines()[-1]
    assert launcher.master_info("s")["source_file"] in ("bin.000001", "bin.000002")


@pytest.mark.parametrize("options", [[], ["--replicate-do-db=nothing"]])
def test_a_transaction_that_takes_its_time(launcher, masters, tmp_path, options):
    """Heartbeats come in the middle of it; what is recorded stays between transactions."""
    binlog = GrowingBinlog(tmp_path / "binlog", masters, file_size=1 << 20, seed=5)
    binlog.write(10, torn=False)
    path = binlog.files[0]
    boundary = path.stat().st_size
    binlog.write(1, torn=False)
    whole = path.read_bytes()
    [gtid, begin, table_map, *rest] = masters.events_of(whole[:4] + whole[boundary:])
    path.write_bytes(whole[:boundary] + gtid + begin + table_map)
    launcher.start_master(binlog.directory)
    options = [*options, "--heartbeat-period=1"]
    launcher.start_slave("s", *options)
    deadline = time.monotonic() + 20
    while launcher.master_info("s")["source_position"] < boundary:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with path.open("ab") as file:
        for event in rest[:-1]:
            time.sleep(1.3)  # longer than a heartbeat's period
            assert launcher.master_info("s")["source_position"] == boundary
            file.write(event)
            file.flush()
        launcher.kill("s")
        launcher.start_slave("s", *options)
        time.sleep(0.5)
        file.write(rest[-1])
    while launcher.master_info("s")["source_position"] != len(whole):
        assert time.monotonic() < deadline, launcher.log("s")
        time.sleep(0.01)
    launcher.kill("s")
    launcher.start_slave("s", *options, "--once")
    assert launcher.wait("s") == 0
    assert launcher.report("s")["gtid_set"].endswith(":1-11")
