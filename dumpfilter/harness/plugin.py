"""The pytest plugin: options, fixtures, the pool of topologies that tests share, and the artifacts of failed tests.

Artifacts are files that show the state of a test's replication topology when the test failed.

pytest loads this module in each run, so it imports little.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import operator
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dumpfilter.base.compiler import notice
from dumpfilter.base.errors import DumpfilterError, OptionError

if TYPE_CHECKING:
    from dumpfilter.testbed import Testbed, TestbedNode
    from dumpfilter.topology.model import Topology

    Start = Callable[..., Testbed]

# -- what the user asks for

MARK = "topology"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's options of pytest's command line, and its key of pytest's configuration file."""
    group = parser.getgroup("topology", "replication topologies (dumpfilter)")
    group.addoption(
        "--topology-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=60.0,  # Machines that run tests are often busy.
        help="the default limit for a start and for a wait (60)",
    )
    group.addoption(
        "--topology-artifacts",
        metavar="DIRECTORY",
        default="topology-artifacts",
        help="where the artifacts of failed tests are written (topology-artifacts)",
    )
    group.addoption(
        "--topology-missing",
        choices=("fail", "skip"),
        default="fail",
        help="what becomes of a test whose server is not installed (fail)",
    )
    parser.addini(
        "topology", "the topology of tests without a mark: a short string or a TOML file", default=""
    )


def _seconds(given: Any) -> float:
    """Return the time limit ``given``, a number or its text, in seconds. Raises ArgumentTypeError, which argparse
    reports, unless ``given`` is a number above 0.
    """
    with contextlib.suppress(TypeError, ValueError):
        if (seconds := float(given)) > 0:
            return seconds
    raise argparse.ArgumentTypeError(f"timeout = {given!r}: give a number of seconds above 0")


class Spec(NamedTuple):
    """The arguments of a test's marker ``@pytest.mark.topology``: the topology to start for the test, and how."""

    topology: str | Path | Topology
    """A short string such as ``m >> web``, the path of a TOML file, or a model."""
    timeout: float | None = None
    """The time limit for a start and for a wait, seconds. None: the value of pytest's option ``--topology-timeout``."""


def _load(spec: str | Path | Topology, node: pytest.Item) -> Topology:
    """Return the topology that ``spec`` describes. ``spec`` is a short string such as ``m >> web``, the path of a TOML
    file, or a Topology.

    A relative path is sought in the directory of the test ``node``, and then in pytest's root directory. Raises
    OptionError for a file that does not exist and for an invalid topology.
    """
    from dumpfilter.topology import topology_from

    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith(".toml")):
        tried = list(dict.fromkeys(parent / spec for parent in (node.path.parent, node.config.rootpath)))
        found = next((path for path in tried if path.exists()), None)
        if found is None:
            raise OptionError(f"there is no file {' and no file '.join(map(str, tried))}")
        spec = found
    return topology_from(spec)


# -- hooks and fixtures

_running = pytest.StashKey[list["Testbed"]]()
"""The key of the running topologies (servers, masters and slaves) that a test uses."""
_failed = pytest.StashKey[bool]()
"""The key of a flag: whether the test has failed, so that the state of its replication topologies is unknown."""

_HIDDEN = ("dumpfilter.topology.links.", "dumpfilter.testbed.servers.", "dumpfilter.testbed.")
"""The prefixes of modules whose stack frames mean nothing to the author of a test."""

MOST_SHARED = 3
"""The limit of shared topologies that run at once. Each real server takes about 100 MB."""


class Pool:
    """The running topologies that tests share. Their number is limited, and a full pool stops the topology that has
    been unused for the longest time.
    """

    def __init__(self, most: int = MOST_SHARED) -> None:
        self._most = most
        self._running: dict[Topology, tuple[Testbed, str]] = {}
        """The running topologies, each with the id of its last test. The most recently used one is the last."""

    def take(self, topology: Topology, start: Callable[[], Testbed], test: str) -> Testbed:
        """Return a running instance of ``topology`` for the test with the id ``test``.

        An instance in the pool is reset to the state after its start before it is returned. If the pool has none,
        ``start`` is called, which starts and returns a new instance. An instance that cannot be reset is replaced, with
        a warning that names the last test that used it.
        """
        running, before = self._running.pop(topology, (None, ""))
        if running is not None:
            try:
                running.reset()
            except DumpfilterError as failure:
                running.down()
                warnings.warn(
                    f"{test} gets a new topology, since the one that {before} had used cannot be reset: {failure}",
                    stacklevel=2,
                )
                running = None
        if running is None:
            while len(self._running) >= self._most:
                self.discard(next(iter(self._running)))
            running = start()
        self._running[topology] = running, test
        return running

    def discard(self, topology: Topology) -> None:
        """Stop the running instance of ``topology``, and remove it from the pool. Call this when a failed test may have
        left the instance in any state.
        """
        self._running.pop(topology)[0].down()

    def close(self) -> None:
        """Stop all topologies of the pool. If stopping one fails, the others are stopped all the same."""
        with contextlib.ExitStack() as ending:
            for topology in self._running:
                ending.callback(self.discard, topology)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker ``topology`` in pytest."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(topology, *, timeout=None): the topology of the fixtures topology and "
        "topology_session: a short string, the path of a TOML file, or a dumpfilter Topology",
    )
    notice.tell = functools.partial(_tell_of_compilation, config)


def _tell_of_compilation(config: pytest.Config) -> None:
    """Print on the terminal that the start of the first topology waits for the compilation of the kernels (compiled
    functions).

    Without this function pytest would capture the text, and show it only after a failure.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        print(f"\ndumpfilter: {notice.TEXT}", file=sys.stderr, flush=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Save logs, binlogs and status of a failed test's topologies while these still run, and add a summary to the
    test's report.
    """
    report = yield
    running = item.stash.get(_running, [])
    if report.failed and running:
        item.stash[_failed] = True
        directory = item.config.rootpath / item.config.getoption("topology_artifacts")
        for number, testbed in enumerate(running, 1):
            name = item.nodeid if number == 1 else f"{item.nodeid}.{number}"
            try:
                told = save_artifacts(testbed, directory, name)
            except OSError as error:
                # pytest would end at an error of its plugin, and report no test.
                told = f"no artifacts: {error}; name another directory with --topology-artifacts"
            report.sections.append(("topology", told))
    return report


@pytest.fixture
def topology_factory(request: pytest.FixtureRequest) -> Iterator[Start]:
    """A function that starts a topology and returns it as a :class:`~dumpfilter.testbed.bed.Testbed`. Its argument is a
    short string such as ``m >> web``, a TOML file or a model.

    All topologies that the function started end with the test.
    """
    with contextlib.ExitStack() as ending:

        def start(topology: str | Path | Topology, *, timeout: float | None = None) -> Testbed:
            testbed = ending.enter_context(_start(request, _load(topology, request.node), timeout))
            return ending.enter_context(_in_use(request, testbed))

        yield start


@contextlib.contextmanager
def _in_use(request: pytest.FixtureRequest, testbed: Testbed) -> Iterator[Testbed]:
    """Record that the test uses ``testbed`` during the ``with`` block. If the test fails meanwhile, files that show the
    state of this topology (artifacts) are saved.
    """
    running = request.node.stash.setdefault(_running, [])
    running.append(testbed)
    yield testbed
    running.remove(testbed)


@pytest.fixture
def topology(request: pytest.FixtureRequest, topology_factory: Start) -> Testbed:
    """The running topology that the marker ``@pytest.mark.topology`` of the test names, started for this test alone."""
    with _told_briefly():
        spec = _wanted(request)
        return topology_factory(spec.topology, timeout=spec.timeout)


@pytest.fixture(scope="session")
def _topology_pool() -> Iterator[Pool]:
    """The pool of topologies that the fixture ``topology_session`` shares between tests."""
    with contextlib.closing(Pool()) as pool:
        yield pool


@pytest.fixture
def topology_session(request: pytest.FixtureRequest, _topology_pool: Pool) -> Iterator[Testbed]:
    """The running topology that the marker ``@pytest.mark.topology`` of the test names. Tests with equal topologies
    share it. It is reset before each test, and replaced after a test that fails.
    """
    with _told_briefly():
        spec = _wanted(request)
        loaded = _load(spec.topology, request.node)
        testbed = _topology_pool.take(
            loaded, lambda: _start(request, loaded, spec.timeout), request.node.nodeid
        )
    with _in_use(request, testbed):
        yield testbed
    if request.node.stash.get(_failed, False):
        _topology_pool.discard(loaded)


@contextlib.contextmanager
def _told_briefly() -> Iterator[None]:
    """Report a DumpfilterError or a wrong time limit in the ``with`` block as a failure of the test, with the error's
    type and text, but without a traceback.

    A traceback through dumpfilter's code would not help the author of the test.
    """
    try:
        yield
    except (DumpfilterError, argparse.ArgumentTypeError) as error:
        raise pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False) from None


def _wanted(request: pytest.FixtureRequest) -> Spec:
    """Return the arguments of a test's marker ``@pytest.mark.topology``, which says what topology to start. Without the
    marker, the result names the default topology of pytest's configuration.

    Raises OptionError for a test without marker and default, and for a marker with wrong arguments.
    """
    mark = request.node.get_closest_marker(MARK)
    default = request.config.getini("topology")
    if mark is None and not default:
        raise OptionError(
            f"{request.node.name} uses the fixture {request.fixturename} and has no topology: mark the test, its class "
            'or its module, for example with @pytest.mark.topology("m >> web[do-db=shop]"), '
            "or give pytest's configuration the key topology"
        )
    try:
        return Spec(default) if mark is None else Spec(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise OptionError(
            f"@pytest.mark.topology: {str(error).partition(' ')[2]}. "
            'Write for example @pytest.mark.topology("m >> web[do-db=shop]", timeout=120)'
        ) from None


def _start(request: pytest.FixtureRequest, topology: Topology, timeout: float | None) -> Testbed:
    """Start ``topology`` for a test, and return it when all nodes are up.

    ``timeout`` is the time limit of the start of a node and of a later wait, seconds; None: the value of pytest's
    option ``--topology-timeout``. If a server is not installed, the test fails, or is skipped with
    ``--topology-missing=skip``.
    """
    from dumpfilter.testbed import ServerMissing, up

    options = request.config.option
    limit = options.topology_timeout if timeout is None else _seconds(timeout)
    try:
        testbed = up(topology, timeout=limit, wait_timeout=limit)
    except ServerMissing as error:
        if options.topology_missing == "skip":
            raise pytest.skip.Exception(str(error)) from None
        raise ServerMissing(f"{error}. In pytest, --topology-missing=skip skips such tests") from None
    _hide_frames()
    return testbed


def _hide_frames() -> None:
    """Make pytest end the traceback of a DumpfilterError at the test's own line. Other errors keep their traceback."""
    hides = operator.methodcaller("errisinstance", DumpfilterError)
    for name, module in list(sys.modules.items()):
        if name.startswith(_HIDDEN):
            vars(module)["__tracebackhide__"] = hides


# -- artifacts

SUMMARY = "summary.txt"
"""The name of the file with the text of the test's report. Its presence marks a directory that the plugin made."""

SUMMARY_COLUMNS = 120
"""The width of the tables in a test's report, characters."""

LOG_LINES = 5
"""The number of last log lines of a node with a problem that the test's report shows."""

MOST_BYTES = 16 << 20
"""The maximum size of the relay logs and binlogs of a node that are copied after a failed test, bytes. The newest files
are copied first.
"""

_LOG_FILE = re.compile(r"(?!aria_log\.).+\.\d{6,}")
"""The pattern of a relay log's or binlog's file name, whose suffix is a number. MariaDB's Aria logs look similar."""

_UNSAFE = re.compile(r"[^\w.=+-]+")
_LONGEST_NAME = 120


def save_artifacts(testbed: Testbed, parent: Path, test: str) -> str:
    """Write files that show the state of a running topology for a failed test. Return a summary for the test's report.

    The files are the status, the report, the history of links (network connections), logs, relay logs and binlogs. They
    are in a new directory below ``parent``, whose name is made from ``test``, the test's id. The directory of the same
    test from an earlier run is replaced. The summary names each file that cannot be written.
    """
    directory = _new_directory(parent, test)
    told: list[str] = []

    @contextlib.contextmanager
    def attempt(what: str) -> Iterator[None]:
        try:
            yield
        except (DumpfilterError, OSError, ValueError) as error:
            told.append(f"no {what}: {error}")

    with attempt("status"):
        told += _save_status(testbed, directory)
    with attempt("report"):
        _write(directory / "report.json", testbed.report())
    for name, link in testbed.links.items():
        with attempt(f"history of the link {name}"):
            _write(directory / "links" / f"{name.replace(':', '-')}.json", list(map(asdict, link.history)))
    for name, node in testbed.nodes.items():
        with attempt(f"log of {name}"):
            _write(directory / name / "log.txt", node.logs)
        with attempt(f"relay logs of {name}"):
            _save_binlogs(node, directory / name)
    told.append(f"artifacts: {directory}")
    text = "\n".join(told)
    (directory / SUMMARY).write_text(text + "\n")
    return text


def _new_directory(parent: Path, test: str) -> Path:
    """Create the directory for the artifacts (files that show a topology's state) of the failed test with the id
    ``test``. It replaces the directory that an earlier run of pytest made for this test.
    """
    parent.mkdir(parents=True, exist_ok=True)
    ignore = parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    directory = parent / _UNSAFE.sub("-", test).strip("-")[-_LONGEST_NAME:]
    if (directory / SUMMARY).exists():
        shutil.rmtree(directory)
    directory.mkdir(exist_ok=True)
    return directory


def _save_status(testbed: Testbed, directory: Path) -> Iterator[str]:
    """Write the topology's status to ``status.json`` in ``directory``, and yield the lines of text about it for the
    test's report.

    The lines are the tables that ``dumpfilter topology status`` prints, the problems, and the last log lines of each
    failed node.
    """
    from rich.console import Console

    from dumpfilter.testbed.views import status_view

    status = testbed.status()
    _write(directory / "status.json", status.as_dict())
    console = Console(width=SUMMARY_COLUMNS, color_system=None)
    with console.capture() as shown:
        console.print(status_view(status.as_dict()))
    yield from map(str.rstrip, shown.get().splitlines())
    for name, node in status.nodes.items():
        if node.state == "failed":
            yield from (f"{name} | {line}" for line in testbed[name].logs.splitlines()[-LOG_LINES:])


def _save_binlogs(node: TestbedNode, directory: Path) -> None:
    """Copy the relay logs and binlogs of a node (server, master or slave) to ``directory``, the newest first. A file is
    left out if the copies would have more than :data:`MOST_BYTES` together.
    """
    files = [path for path in node.directory.rglob("*") if _LOG_FILE.fullmatch(path.name) and path.is_file()]
    left = MOST_BYTES
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        size = path.stat().st_size
        if size <= left:
            left -= size
            copy = directory / path.relative_to(node.directory)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _write(path: Path, value: Any) -> None:
    """Write ``value`` to the file ``path``: a string as it is, another value as JSON. Missing directories are
    created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1, default=str) + "\n")
