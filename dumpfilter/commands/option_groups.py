"""The options that several commands share.

They name the binlog set, the engine (threads or Spark) that reads it, and slaves with their filters. They also name the
ports of a process that serves others, and the console that a command asks.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, SkipValidation

from dumpfilter.base.errors import OptionError
from dumpfilter.base.logs import Format, Level, logger
from dumpfilter.base.options.config_files import read_password
from dumpfilter.base.options.settings import Settings, repeated, setting
from dumpfilter.base.options.values import whole_number
from dumpfilter.commands.sub_command import at_end
from dumpfilter.filter import rules as R
from dumpfilter.spark_jobs.options import SPARK_PANEL, SparkSettings

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.base.security.guarded_client import Login
    from dumpfilter.base.security.tls import ReloadingTls, TlsSource
    from dumpfilter.console.metrics import MetricsEndpoint
    from dumpfilter.console.port import ConsoleEndpoint
    from dumpfilter.filter.channels import ChannelFilters
    from dumpfilter.filter.filter import FilterOptions
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.spark_jobs.engines import Runner
    from dumpfilter.topology.slaves_file import SlaveDefinition

Engine = Literal["local", "spark"]


class OptionalBinlogArguments(Settings):
    """The arguments that name a binlog set (the files that one index file names), for a command that can also run
    without a binlog set.
    """

    binlogs: list[str] | None = setting(None, metavar="BINLOGS", is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md); or --statement."""
    store: Path | None = setting(None, metavar="DIRECTORY")
    """Keep what is fetched from a mysql:// address in this directory, and go on there the next time. Without it the
    files are temporary."""

    def source(self) -> list[str]:
        """Return the paths of the binlog files, index file or directory that the command line names, as an argument for
        ``BinlogSet.open``. The binlog of a running server is fetched first.
        """
        return fetched(self.binlogs or [], self.store)

    def open(self) -> BinlogSet:
        """Return the binlog set (the files that one index file names) that the command line names. The binlog of a
        running server is fetched first.
        """
        from dumpfilter.index.fileset import BinlogSet

        return BinlogSet.open(self.source())


class BinlogArguments(OptionalBinlogArguments):
    """The arguments that name the binlog set (the files that one index file names) that a command reads. The files may
    be on a remote file system, or be fetched from a running server.
    """

    binlogs: list[str] = setting(metavar="BINLOGS", show_default=False, is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md)."""


class JsonOption(Settings):
    """The option ``--json``, for output that programs read."""

    as_json: bool = setting(False, "--json")
    """Print JSON instead of tables or text."""

    def show(self, result: BaseModel | dict[str, Any], print_for_people: Callable[[], object]) -> None:
        """Print the result of a command to standard output, as JSON or by calling ``print_for_people``."""
        from dumpfilter.analyse.report.terminal import print_json

        if self.as_json:
            print_json(result)
        else:
            print_for_people()


class VerifyOptions(Settings):
    """The option that says whether a command verifies the checksums of events while it reads binlog files."""

    verify_checksum: bool = True
    """Verify the events' checksums."""


class SlaveSetOptions(Settings):
    """The options that describe slaves with their filters, in files (``--slaves``) or on the command line
    (``--slave``).
    """

    slaves: list[Path] | None = setting(None, metavar="FILE", show_default=False)
    """Slaves and their filters: a TOML file, or a replica's own my.cnf. Repeatable."""
    slave: list[str] | None = setting(None, metavar="NAME:OPTIONS", show_default=False)
    """A slave and its filter, for example to try out a filter. Can be combined with --slaves. Repeatable."""

    def definitions(self) -> list[SlaveDefinition]:
        """Return the slaves that ``--slaves`` and ``--slave`` describe, with their names and filters. Raises
        OptionError for a wrong file or option, and for two slaves of one name.
        """
        from dumpfilter.topology.slaves_file import slaves_of

        return slaves_of(self.slaves or [], self.slave or [])


def fetched(binlogs: list[str], store: Path | None) -> list[str]:
    """Return the paths that name a binlog set: its files one by one, its index file, or its directory. If ``binlogs``
    is a running server's address, its binlog is fetched first, and the result is the directory of the fetched files.

    The files are kept in ``store``. With None they are temporary, until the end of the command. Raises OptionError for
    a ``store`` without a server's address, and DumpfilterError if the server's binlog cannot be fetched.
    """
    from dumpfilter.receiver.url import source_url_in

    url = source_url_in(binlogs)
    if url is None:
        if store is not None:
            raise OptionError("--store goes with the address of a server, mysql://…")
        return binlogs
    from rich.console import Console

    from dumpfilter.commands.reception import fetch

    directory = store or Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="dumpfilter-fetch-")))
    fetch(url, directory, "none" if store is None else "interval", Console(stderr=True, highlight=False))
    return [str(directory)]


class EngineOptions(SparkSettings, panel=SPARK_PANEL):
    """The options of the engine that runs a job such as ``split`` or ``bandwidth``: threads of this process, or Spark
    with its settings.
    """

    engine: Engine | None = setting(None, rich_help_panel=None)
    """The engine that runs the job: local uses threads of this process, spark uses Apache Spark, which needs Java 17 or
    newer. Default: local for a simulation and for bandwidth with --slave, spark otherwise.
    """

    def runner(self, progress: Console, *, default: Engine) -> AbstractContextManager[Runner]:
        """Return a context manager that yields the object which runs the parallel tasks of a job, on threads or on
        Spark. Its end stops Spark.

        ``default`` is the engine (threads or Spark) if the user named none. ``progress`` is Rich's console (the
        terminal) for the progress bar. Raises OptionError for an option of Spark with the local engine, and
        SparkMissing when Spark cannot start here.
        """
        if (self.engine or default) == "spark":
            from dumpfilter.spark_jobs.spark import spark_runner

            return spark_runner(self, progress)
        why = "is an option of Spark, and the work runs here: add --engine spark"
        self.refuse(SparkSettings.model_fields, why)
        from dumpfilter.spark_jobs.engines import ThreadRunner

        return nullcontext(ThreadRunner(console=progress))


Rules = Annotated[Mapping[R.BaseRuleKind, Sequence[str]], SkipValidation]
"""The values of the filter options that the user gave, by kind of rule."""

WRITE_PANEL = "Write side"


def rule_options(kinds: Iterable[R.BaseRuleKind]) -> Any:
    """Return the default of a settings field that collects the options of filter rules, such as ``--replicate-do-db``.

    Each kind of rule in ``kinds`` has one repeatable option. The field maps each kind of rule to the values of its
    option.
    """
    return repeated({kind.option: (kind, kind.help, kind.metavar) for kind in kinds})


class SlaveFilterOptions(Settings, panel="Filter"):
    """The options of a slave's filter: rules such as ``--replicate-do-db``, their semantics, and how names compare."""

    rules: Rules = rule_options(R.SLAVE_RULE_KINDS)
    filter_semantics: R.FilterSemantics = R.FilterSemantics.CLASSIC
    """classic: the --replicate-* rules. effective: --do, --ignore and --rewrite, which look at what a statement changes
    and never at the current database."""
    lower_case_table_names: int = setting(0, min=0, max=2)
    """The comparison of names of databases and tables: 0 with case, 1 and 2 without case."""

    def channel_filters(self) -> ChannelFilters:
        """Return the filter of each of the slave's channels, from the rules in these options.

        A rule such as ``ch1:shop`` is for the channel ``ch1`` alone. A rule without a channel's name is for every
        channel, unless the channel has a rule of the same kind (option) of its own. Raises OptionError for a rule that
        the chosen ``--filter-semantics`` do not have.
        """
        from dumpfilter.filter.channels import ChannelFilters, split_channel

        filters = ChannelFilters()
        for kind, values in self.rules.items():
            self.filter_semantics.check(kind)
            for value in values:
                channel, rule = split_channel(value)
                filters.startup(channel, [R.make_rule(kind, rule)])
        return filters

    def filter_options(self, written: WriteRuleOptions | None = None) -> FilterOptions:
        """Return the slave's filter from the rules in these options, together with the rules of the server that writes
        the binlog.

        ``written`` has the rules by which that server keeps databases out of its binlog; None: it writes everything.
        Raises OptionError for a bad value.
        """
        from dumpfilter.filter.filter import FilterOptions

        written = written or WriteRuleOptions()
        return FilterOptions(
            rules=tuple(R.make_rules(self.rules)),
            semantics=self.filter_semantics,
            write_rules=tuple(R.make_rules(written.write_rules)),
            write_semantics=written.binlog_filter_semantics,
            lower_case_table_names=self.lower_case_table_names,
        )


class WriteRuleOptions(Settings, panel=WRITE_PANEL):
    """The options for the rules by which the server that writes a binlog keeps databases out of it, such as
    ``--binlog-do-db``.
    """

    write_rules: Rules = rule_options(R.WriteRuleKind)
    binlog_filter_semantics: R.WriteSemantics = R.WriteSemantics.SERVER
    """Statements without a current database, under any rule: server: as the binlog's server does (MySQL writes them; in
    MariaDB they are in no database). worklog: not written. effective: --binlog-do and --binlog-ignore, by what is
    changed, instead."""


class MasterRuleOptions(WriteRuleOptions, panel=WRITE_PANEL):
    """The options for the rules by which a master hides events from all its slaves.

    They are ``--binlog-do-db`` and ``--binlog-ignore-db``, or the effective rules ``--binlog-do`` and
    ``--binlog-ignore``, which look at the tables that a statement changes.
    """

    write_rules: Rules = repeated(
        {kind.option: (kind, kind.help, kind.metavar) for kind in R.WriteRuleKind}
        | {
            kind.binlog_option: (
                kind,
                f"{kind.help} Effective semantics.".replace("--", "--binlog-"),
                kind.metavar,
            )
            for kind in (R.EffectiveRuleKind.DO, R.EffectiveRuleKind.IGNORE)
        }
    )
    lower_case_table_names: int = setting(0, min=0, max=2)
    """The comparison of names in the --binlog-do-db and --binlog-ignore-db rules: 0 with case, 1 and 2 without case."""


T = TypeVar("T")

TLS_PANEL = "TLS"

CONSOLE_VARIABLE = "DUMPFILTER_CONSOLE_PASSWORD"
_RANDOM_BYTES = 18


def make_password(path: Path) -> None:
    """Create a file with a random password, unless the file exists. The log tells of a new file, since its name may be
    misspelt.

    Only the owner can read the new file. Raises OptionError for a file that cannot be created.
    """
    try:
        if path.exists():
            return
        # The link makes the file appear with the whole password. An empty file would let users in without one.
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8") as new:
            new.write(secrets.token_urlsafe(_RANDOM_BYTES) + "\n")
            new.flush()
            os.fsync(new.fileno())
            os.link(new.name, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise OptionError(
            f"{path}: the password file cannot be made: {error.strerror}; name a file in a directory that you may "
            "write to"
        ) from None
    else:
        logger("dumpfilter.console").warning("console.password_made", file=str(path))


class ProtectionOptions(Settings, panel=TLS_PANEL):
    """The options for the TLS certificate that all listening ports of a process share."""

    tls_cert: Path | None = setting(None, metavar="FILE")
    """The certificate of this process, PEM, and after it those of its issuers. With it a master serves slaves over
    TLS alone. Without it a console makes a certificate. A changed file is read again."""
    tls_key: Path | None = setting(None, metavar="FILE")
    """The certificate's private key, PEM."""
    tls_ca: Path | None = setting(None, metavar="FILE")
    """The CA of clients' certificates, PEM. A client of the console that shows a certificate must have one signed by
    this CA."""
    insecure: bool = False
    """Serve other machines even without TLS or without users. Anybody on the network can then read and change what
    this process serves."""

    def tls(self, *, for_grpc: bool = False) -> ReloadingTls | None:
        """Return the TLS settings of the files, or None without ``--tls-cert`` and ``--tls-key``.

        With ``for_grpc`` the key must be of a type that gRPC can use. Raises OptionError for files that cannot be used.
        """
        if self.tls_cert is None and self.tls_key is None:
            return None
        from dumpfilter.base.security.tls import ReloadingTls, TlsFiles

        return ReloadingTls(TlsFiles(self.tls_cert, self.tls_key, self.tls_ca), for_grpc=for_grpc)

    def endpoint(
        self, made: Callable[..., T], port: int | None, tls: TlsSource | None, **more: Any
    ) -> T | None:
        """Return the settings of a listening port (address, TLS, login of clients), or None if ``port`` is None.

        ``made`` is the class of the settings: :class:`~dumpfilter.base.security.listening.Endpoint` or a subclass.
        ``tls`` is the certificate from the files of these options, or None. ``more`` are further arguments of the
        class, such as ``host`` and ``port_file``.
        """
        protection = {"tls": tls, "ca": self.tls_ca, "insecure": self.insecure}
        return None if port is None else made(port=port, **protection | more)


class ConsoleOptions(Settings, panel="Console"):
    """The options of an SQL console (a port for MySQL clients): its address, its user, and the audit log."""

    console_port: int | None = setting(None, min=0, max=65535)
    """Port for MySQL clients; 0 takes a free one. Without this option there is no console."""
    console_host: str | None = None
    """Address the console listens on. Without this option it is a master's --host, or 127.0.0.1."""
    console_port_file: Path | None = None
    """Write the console's port to this file once the console answers."""
    console_user: str | None = None
    """A user of the console, besides those of a master's --config (root where there is none)."""
    console_password_file: Path | None = None
    """A file whose first line is the console user's password. If the file does not exist, it is made, with a random
    password. Without this option the password is that of DUMPFILTER_CONSOLE_PASSWORD. A user without a password
    may only read, and only from this machine."""

    audit_log: Path | None = setting(None, metavar="FILE")
    """Append a line of JSON to this file for each change that a console or a slave asks for. Without this option the
    lines are in the ordinary log. A renamed file is replaced by a new one."""

    def endpoint(
        self, protection: ProtectionOptions, tls: TlsSource | None, *, host: str = "127.0.0.1"
    ) -> ConsoleEndpoint | None:
        """Return address, login and TLS settings of the console, or None without ``--console-port``. A missing password
        file is created, with a random password.

        ``host`` is the address to listen on without ``--console-host``. ``tls`` is the certificate from the files of
        ``protection``, or None without such files. Raises OptionError for a password file that cannot be read or made.
        """
        if self.console_port is None:
            return None
        from dumpfilter.console.port import ConsoleEndpoint

        path = self.console_password_file
        if path is not None:
            make_password(path)
        return protection.endpoint(
            ConsoleEndpoint,
            self.console_port,
            tls,
            host=host if self.console_host is None else self.console_host,
            port_file=self.console_port_file,
            user=self.console_user,
            password=read_password(path, CONSOLE_VARIABLE),
        )


class LogOptions(Settings, panel="Log"):
    """The options for the format of a process's log on standard error, and for the lowest level of its lines.
    :class:`~dumpfilter.commands.sub_command.SubCommand` configures the log with them.
    """

    log_format: Format | None = setting(None, show_default=Format.TEXT.value)
    """The format of log lines: text for people, or json with one object a line for programs."""
    log_level: Level | None = setting(None, show_default=Level.INFO.value)
    """The least level of the log's lines. Lines of the audit log have no level, and always appear."""


class MonitoringOptions(LogOptions, panel="Metrics"):
    """The options by which people watch a process: the format and level of its log, and the HTTP endpoint from which
    Prometheus reads its metrics.
    """

    metrics_port: int | None = setting(None, min=0, max=65535)
    """Port at which Prometheus reads metrics; 0 takes a free one. Without this option there are none."""
    metrics_address: str = "127.0.0.1"
    """Address of --metrics-port. For an address that other machines can reach, Prometheus needs a certificate signed
    by the CA of --tls-ca."""
    metrics_port_file: Path | None = None
    """Write the port to this file once Prometheus can connect."""
    metrics_insecure: bool = False
    """Show the metrics to other machines over plain HTTP. Everybody on the network can then read the names of
    slaves, channels and users."""

    def metrics(self, protection: ProtectionOptions, tls: TlsSource | None) -> MetricsEndpoint | None:
        """Return the settings of the HTTP endpoint for Prometheus, or None without ``--metrics-port``. ``tls`` is the
        process's certificate, or None.
        """
        from dumpfilter.console.metrics import MetricsEndpoint

        where = {"host": self.metrics_address, "port_file": self.metrics_port_file}
        return protection.endpoint(
            MetricsEndpoint, self.metrics_port, tls, insecure=self.metrics_insecure, **where
        )


PASSWORD_VARIABLE = "DUMPFILTER_PASSWORD"


class ConsoleLogin(Settings):
    """The options that name the console (a port for MySQL clients) of a master or a slave, and the user and password
    for it.
    """

    slave: str = setting("", metavar="HOST:PORT")
    """The console of a slave."""
    console: str = setting("", metavar="HOST:PORT")
    """The console of a master."""
    user: str = setting("root", "--user", "-u")
    """The console's user."""
    password_file: Path | None = setting(None, "--password-file", "-p")
    """A file whose first line is the console user's password. Without it the password is that of the environment
    variable DUMPFILTER_PASSWORD."""
    tls_ca: Path | None = setting(None, metavar="FILE")
    """Demand TLS of the console, with a certificate that this CA has signed or that is in this file, and that names the
    host. Without it TLS is used unverified."""

    def login(self) -> Login | None:
        """Return the address, user and password for the console that the options name, or None if they name no console.
        ``--slave`` takes precedence over ``--console``. Raises OptionError for an invalid address or password file.
        """
        from dumpfilter.console.client import console_login

        option, address = ("--slave", self.slave) if self.slave else ("--console", self.console)
        if not address:
            return None
        host, port = parse_address(option, address)
        password = read_password(self.password_file, PASSWORD_VARIABLE)
        return console_login(host, port, self.user, password, self.tls_ca)


def parse_address(option: str, value: str, form: str = "HOST:PORT") -> tuple[str, int]:
    """Parse the value ``HOST:PORT`` of the command line option ``option``, and return host and port. Raises OptionError
    for any other text. The error tells the user to write ``form``.

    >>> parse_address("--slave", "[::1]:3308")
    ('::1', 3308)
    """
    host, _, digits = value.rpartition(":")
    port = whole_number(digits)
    if not host or port is None or not 0 < port < 65536:
        raise OptionError(f"{option}={value}: write {form}")
    return host.strip("[]"), port
