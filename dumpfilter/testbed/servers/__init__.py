"""Real MariaDB and MySQL servers: their programs, their start and end, replicas, and the comparison of their data."""

from dumpfilter.binlog.format import Family
from dumpfilter.testbed.servers.dialect import SourceAddress
from dumpfilter.testbed.servers.process import Process, Spawn
from dumpfilter.testbed.servers.programs import Program, find_program
from dumpfilter.testbed.servers.replica import Channel, ReplicaStatus, replica_status, wait_for_gtids
from dumpfilter.testbed.servers.server import Server, end_servers, free_port, free_ports
from dumpfilter.testbed.servers.session import Account, RunningServer, SqlServer

__all__ = [
    "Account",
    "Channel",
    "Family",
    "Process",
    "Program",
    "ReplicaStatus",
    "RunningServer",
    "Server",
    "SourceAddress",
    "Spawn",
    "SqlServer",
    "end_servers",
    "find_program",
    "free_port",
    "free_ports",
    "replica_status",
    "wait_for_gtids",
]
