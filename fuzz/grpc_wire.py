"""Fuzz the gRPC requests of a master over a real connection; README.md describes how."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2

from dumpfilter.dump.stream.message import PROTOCOL
from dumpfilter.v1 import dumpfilter_pb2 as pb

ROOT = Path(__file__).parent.parent
RECORDING = ROOT / "tests" / "oracle" / "data" / "oracle" / "mysql-row" / "bin.index"

SERVICE = "/dumpfilter.v1.DumpFilter/"
HEALTH = "/grpc.health.v1.Health/"
STREAMS = {f"{SERVICE}Dump", f"{HEALTH}Watch"}

UNEXPECTED = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE}
"""The status codes that a request of a client must never cause."""

SECONDS_FOR_ONE = 5.0
"""The time within which the master must answer, seconds. A dump that goes on longer is ended."""

MOST_GROWTH = 96 << 20
"""The most memory by which the master may grow after the first tenth of the run, bytes."""


def seeds(slave_id: str) -> list[tuple[str, bytes]]:
    """Return valid requests for each method, which the fuzzer changes."""
    definition = pb.FilterDefinition(
        rules=[
            pb.Rule(kind=pb.REPLICATE_DO_DB, value="shop"),
            pb.Rule(kind=pb.REPLICATE_WILD_DO_TABLE, value="s%.a_b%"),
            pb.Rule(kind=pb.REPLICATE_REWRITE_DB, value="a->b"),
        ],
        origin=pb.OriginFilter(ignore_server_ids=[1, 5, 300], own_server_id=7),
        names=pb.GENERAL_CI,
    )
    place = pb.BinlogPosition(file="bin.000002", position=4)
    gtids = "5e1ec7ed-b109-11f1-a980-0002fc000000:1-5:9"
    begin = pb.DumpRequest(slave_id=slave_id, once=True, chunk_size=5000)
    getattr(begin, "from").CopyFrom(place)
    requests = [
        (
            "Register",
            pb.RegisterRequest(
                protocol=PROTOCOL,
                server_id=7,
                uuid=str(uuid.UUID(int=7)),
                filter=definition,
                secret=bytes(16),
            ),
        ),
        (
            "Register",
            pb.RegisterRequest(
                protocol=PROTOCOL,
                server_id=8,
                uuid=str(uuid.UUID(int=8)),
                channel="c",
                user="u",
                password="p",
            ),
        ),
        ("Dump", begin),
        ("Dump", pb.DumpRequest(slave_id=slave_id, once=True, gtid_set=gtids, heartbeat_period_ms=1)),
        ("Status", pb.StatusRequest(slave_id=slave_id)),
        ("Status", pb.StatusRequest(slave_id=slave_id, user="u", password="p")),
        ("Unregister", pb.UnregisterRequest(slave_id="none")),
    ]
    health = health_pb2.HealthCheckRequest(service="dumpfilter.v1.DumpFilter")
    return [
        *((SERVICE + method, request.SerializeToString()) for method, request in requests),
        (f"{HEALTH}Check", health.SerializeToString()),
        (f"{HEALTH}Watch", health.SerializeToString()),
    ]


def changed(data: bytes, chance: random.Random) -> bytes:
    """Return the bytes of a request after some random changes."""
    made = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 4, 16))):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(7)
        if kind == 0 and made:
            made[at % len(made)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            made[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 2:
            del made[at : at + chance.randrange(1, 9)]
        elif kind == 3:
            piece = made[at : at + chance.randrange(1, 64)]
            made[at:at] = piece * chance.choice((1, 2, 50, 1000))
        elif kind == 4:
            made[at:at] = b"\xff" * chance.randrange(1, 11)
        elif kind == 5 and made:
            made[at % len(made)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        else:
            del made[at:]
    return bytes(made[: 4 << 20])


class Master:
    """A master in a process of its own, over a recording."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "master.log"
        port_file = folder / "port"
        arguments = ["master", str(RECORDING), "--port", "0", "--port-file", str(port_file)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dumpfilter", *arguments], stdout=log, stderr=log, cwd=ROOT
            )
        while not port_file.exists():
            if self.process.poll() is not None:
                raise SystemExit(self.log.read_text())
            time.sleep(0.05)
        self.address = f"127.0.0.1:{port_file.read_text().strip()}"

    @property
    def memory(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(30)


def register(channel: grpc.Channel) -> str:
    call = channel.unary_unary(f"{SERVICE}Register", None, pb.RegisterResponse.FromString)
    # A channel of its own, because an earlier slave may still be dumping.
    request = pb.RegisterRequest(
        protocol=PROTOCOL, server_id=99, uuid=str(uuid.uuid4()), channel=str(uuid.uuid4())
    )
    return str(call(request.SerializeToString(), timeout=30).slave_id)


def ask(channel: grpc.Channel, method: str, data: bytes) -> grpc.StatusCode:
    """Send one request, and return the status of the answer."""
    try:
        if method in STREAMS:
            answers: Any = channel.unary_stream(method, None, None)(data, timeout=SECONDS_FOR_ONE)
            for number, _ in enumerate(answers, 1):
                # A watch has one answer only while the master's health stays the same.
                if number == (3 if method.endswith("Dump") else 1):
                    answers.cancel()
                    break
        else:
            channel.unary_unary(method, None, None)(data, timeout=SECONDS_FOR_ONE)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        master = Master(Path(folder))
        try:
            findings = fuzz(master, options.seconds, options.seed)
        finally:
            code = master.stop()
        if code:
            findings.append(f"the master ended with exit code {code}")
        log = master.log.read_text(errors="replace")
        if "Traceback" in log:
            findings.append(log[log.index("Traceback") :][:3000])
    for finding in findings:
        print("FINDING:", finding)
    sys.exit(bool(findings))


def fuzz(master: Master, seconds: float, seed: int) -> list[str]:
    """Send requests for some time, print the statuses of the answers, and return what is wrong."""
    chance = random.Random(seed)
    channel = grpc.insecure_channel(master.address)
    requests = seeds(register(channel))
    statuses: Counter[tuple[str, str]] = Counter()
    findings: list[str] = []
    begin, first = time.monotonic(), 0
    while (spent := time.monotonic() - begin) < seconds and not findings:
        if spent > seconds / 10 and not first:
            first = master.memory
        method, request = chance.choice(requests)
        data = changed(request, chance) if chance.random() < 0.95 else chance.randbytes(chance.randrange(200))
        status = ask(channel, method, data)
        statuses[method, status.name] += 1
        if status in UNEXPECTED:
            findings.append(f"{method} answered {status.name} to {data[:2000].hex()}")
        if statuses.total() % 500 == 0:
            requests = seeds(register(channel))
    grown = master.memory - first
    if grown > MOST_GROWTH:
        findings.append(f"the master's memory grew by {grown >> 20} MiB")
    for (method, status_name), number in sorted(statuses.items()):
        print(f"{number:8} {method} {status_name}")
    print(f"{statuses.total()} requests, memory {first >> 20} MiB and {grown >> 20} MiB more, seed {seed}")
    return findings


if __name__ == "__main__":
    main()
