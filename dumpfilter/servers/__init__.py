"""Real MariaDB and MySQL servers: their programs, their start and end, replicas, and the comparison of their data."""

from dumpfilter.servers.dialect import SourceAddress
from dumpfilter.servers.programs import Family, Program, find_program
from dumpfilter.servers.replica import Channel, ReplicaStatus, replica_status, wait_for_gtids
from dumpfilter.servers.server import Server, free_port, stop_servers
from dumpfilter.servers.session import Account, Place, RunningServer, SqlServer

__all__ = [
    "Account",
    "Channel",
    "Family",
    "Place",
    "Program",
    "ReplicaStatus",
    "RunningServer",
    "Server",
    "SourceAddress",
    "SqlServer",
    "find_program",
    "free_port",
    "replica_status",
    "stop_servers",
    "wait_for_gtids",
]
