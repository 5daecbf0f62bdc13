"""The pytest plugin's hooks and fixtures, and the pool of topologies that tests share. pytest loads this module in each
run, so it imports little.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import shutil
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dumpfilter.base.compiler import notice
from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.harness import asked
from dumpfilter.harness.asked import MARK, ServerCase, Settings, Spec

if TYPE_CHECKING:
    from dumpfilter.testbed import Testbed
    from dumpfilter.topology.model import Topology

    Start = Callable[..., Testbed]

_settings = pytest.StashKey[Settings]()
_running = pytest.StashKey[list["Testbed"]]()
"""The topologies that a test uses and that are up."""
_kept = pytest.StashKey[list[str]]()
"""The directories that stay after the run."""
_failed = pytest.StashKey[bool]()
"""Whether the test has failed, so that the state of its topologies is unknown."""

_HIDDEN = ("dumpfilter.topology.links.", "dumpfilter.testbed.servers.", "dumpfilter.testbed.")
"""The prefixes of modules whose stack frames mean nothing to the author of a test."""

_KEPT_BY_WORKER = "topology_kept"

CASE = "topology_servers"
"""The fixture with the server programs of a test. Tests run once for each of its values."""


MOST_SHARED = 3
"""The limit of shared topologies that run at once. Each real server takes about 100 MB."""


class Pool:
    """The running topologies that tests share, of a limited number. A full pool stops the topology that has been unused
    for the longest time.
    """

    def __init__(self, most: int = MOST_SHARED) -> None:
        self._most = most
        self._running: dict[Topology, tuple[Testbed, str]] = {}
        """The running topologies, each with the id of its last test. The most recently used one is the last."""

    def take(self, topology: Topology, start: Callable[[], Testbed], test: str) -> Testbed:
        """Return a running instance of ``topology`` for the test with the id ``test``.

        An instance in the pool is reset before it is returned. Otherwise ``start`` starts a new one. An instance that
        cannot be reset is replaced, with a warning that names the last test that used it.
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
                self._end(next(iter(self._running)))
            running = start()
        self._running[topology] = running, test
        return running

    def discard(self, testbed: Testbed) -> None:
        """Stop the topology ``testbed``, and remove it from the pool. A failed test may have left it in any state."""
        for topology in [one for one, (running, _) in self._running.items() if running is testbed]:
            self._end(topology)

    def _end(self, topology: Topology) -> None:
        running, _ = self._running.pop(topology)
        running.down()

    def close(self) -> None:
        """Stop all topologies of the pool. If stopping one fails, the others are stopped all the same."""
        with contextlib.ExitStack() as ending:
            for topology in self._running:
                ending.callback(self._end, topology)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of dumpfilter's pytest plugin."""
    asked.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker ``topology`` in pytest, and read the options of dumpfilter's plugin."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(topology, *, servers=None, timeout=None): the topology of the fixtures topology and "
        "topology_session: a short string, the path of a TOML file, or a dumpfilter Topology",
    )
    config.stash[_settings] = asked.read_settings(config)
    config.stash[_kept] = []
    notice.on_compilation(functools.partial(_tell_of_compilation, config))


def _tell_of_compilation(config: pytest.Config) -> None:
    """Print on the terminal that the first topology waits for the compilation of the kernels.

    Without this function pytest would capture the text, and show it only after a failure.
    """
    capture = config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        print(f"\ndumpfilter: {notice.TEXT}", file=sys.stderr, flush=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the main process of pytest-xdist, from one of its workers, which directories of topologies are kept after
    the run.
    """
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEPT_BY_WORKER] = session.config.stash[_kept]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a worker of pytest-xdist that has ended the names of the topology directories that are kept. A crashed
    worker sends none.
    """
    node.config.stash[_kept].extend(getattr(node, "workeroutput", {}).get(_KEPT_BY_WORKER, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print at the end of the run which directories of topologies are kept, so that the user can look at them."""
    if kept := config.stash[_kept]:
        terminalreporter.section("kept topologies")
        for directory in kept:
            terminalreporter.write_line(directory)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test with its server cases, so that the test runs once for each.

    A server case is a choice of MySQL and MariaDB programs, from the test's marker and the command line.
    """
    if CASE not in metafunc.fixturenames:
        return
    settings = metafunc.config.stash[_settings]
    try:
        spec = asked.spec_of(metafunc.definition, settings.default)
        found = _cases(spec, settings, metafunc.definition)
    except DumpfilterError:
        return  # the test's set-up meets the same error, and fails this test alone
    if len(found) > 1 or (spec is not None and spec.servers):
        metafunc.parametrize(CASE, found, indirect=True, ids=[case.name for case in found])


def _cases(spec: Spec | None, settings: Settings, node: pytest.Item) -> list[ServerCase]:
    """Return the server cases (choices of server programs) of the test ``node``.

    The topology is loaded only when the user names several programs.
    """
    if spec is None or not (spec.servers or len(settings.programs) > 1):
        return [_default_case(settings)]
    nodes = () if spec.servers else asked.load(spec.topology, *_directories(node)).nodes
    return asked.cases(settings.programs, {one.server for one in nodes}, spec.servers)


def _default_case(settings: Settings) -> ServerCase:
    """Return the server case with the first program that the user names for each family (MySQL, MariaDB)."""
    return asked.cases(settings.programs, asked.FAMILIES)[0]


def _directories(node: pytest.Item) -> tuple[Path, Path]:
    return node.path.parent, node.config.rootpath


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
        # Most runs have no failed test with a topology.
        from dumpfilter.harness.artifacts import save

        item.stash[_failed] = True
        settings = item.config.stash[_settings]
        for number, testbed in enumerate(running, 1):
            name = item.nodeid if number == 1 else f"{item.nodeid}.{number}"
            report.sections.append(("topology", save(testbed, settings.artifacts, name)))
    return report


@pytest.fixture
def topology_servers(request: pytest.FixtureRequest) -> ServerCase:
    """The choice of MySQL and MariaDB programs with which the test's topologies start their servers. The test runs once
    for each choice.
    """
    case: ServerCase = getattr(request, "param", None) or _default_case(request.config.stash[_settings])
    return case


@pytest.fixture
def topology_factory(request: pytest.FixtureRequest, topology_servers: ServerCase) -> Iterator[Start]:
    """A function that starts a topology and returns it as a :class:`~dumpfilter.testbed.bed.Testbed`. Its argument is a
    short string such as ``m >> web``, a TOML file or a model.

    All topologies that the function started end with the test.
    """
    with contextlib.ExitStack() as ending:

        def start(topology: str | Path | Topology, *, timeout: float | None = None) -> Testbed:
            loaded = topology_servers.applied(asked.load(topology, *_directories(request.node)))
            testbed = ending.enter_context(_start(request, loaded, timeout))
            return ending.enter_context(_in_use(request, testbed))

        yield start


@contextlib.contextmanager
def _in_use(request: pytest.FixtureRequest, testbed: Testbed) -> Iterator[Testbed]:
    """Note that the test uses the topology ``testbed`` during the ``with`` block, for the artifacts of a failure."""
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
def topology_session(
    request: pytest.FixtureRequest, topology_servers: ServerCase, _topology_pool: Pool
) -> Iterator[Testbed]:
    """The running topology that the marker ``@pytest.mark.topology`` of the test names. Tests with equal markers share
    it, and it is reset before each test.
    """
    with _told_briefly():
        spec = _wanted(request)
        loaded = topology_servers.applied(asked.load(spec.topology, *_directories(request.node)))
        testbed = _topology_pool.take(
            loaded, lambda: _start(request, loaded, spec.timeout), request.node.nodeid
        )
    with _in_use(request, testbed):
        yield testbed
    if request.node.stash.get(_failed, False):
        _topology_pool.discard(testbed)


@contextlib.contextmanager
def _told_briefly() -> Iterator[None]:
    """Report a DumpfilterError in the ``with`` block as a failure of the test, with the error's type and text.

    The report has no traceback, because one through dumpfilter's code would not help the author of the test.
    """
    try:
        yield
    except DumpfilterError as error:
        raise pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False) from None


def _wanted(request: pytest.FixtureRequest) -> Spec:
    """Return the marker arguments of a test, or the configured default. Raises OptionError if there is neither."""
    spec = asked.spec_of(request.node, request.config.stash[_settings].default)
    if spec is None:
        raise OptionError(
            f"{request.node.name} uses the fixture {request.fixturename} and has no topology: mark the test, its class "
            'or its module, for example with @pytest.mark.topology("m >> web[do-db=shop]"), '
            "or give pytest's configuration the key topology"
        )
    return spec


def _start(request: pytest.FixtureRequest, topology: Topology, timeout: float | None) -> Testbed:
    """Start ``topology`` for a test, and return it when all nodes are up.

    ``timeout`` is the time limit of the start of a node and of a later wait, seconds; None for the limit of the run.
    If a server is not installed, the test fails, or is skipped with ``--topology-missing=skip``.
    """
    from dumpfilter.testbed import ServerMissing, up
    from dumpfilter.testbed.directory import kept_directory

    settings = request.config.stash[_settings]
    directory = kept_directory() if settings.keeps else None
    try:
        limit = timeout or settings.timeout
        testbed = up(topology, directory, timeout=limit, wait_timeout=limit, keep=settings.keeps)
    except ServerMissing as error:
        if directory is not None:
            shutil.rmtree(directory)
            directory = None
        if settings.skips_missing:
            raise pytest.skip.Exception(str(error)) from None
        raise ServerMissing(
            f"{error}. In pytest, --topology-server names a program, and --topology-missing=skip skips such tests"
        ) from None
    finally:
        # A topology that does not start has the most interesting files.
        if directory is not None:
            request.config.stash[_kept].append(f"{directory}  ({request.node.nodeid})")
    _hide_frames()
    return testbed


def _hide_frames() -> None:
    """Make pytest end the traceback of a DumpfilterError at the test's own line. Other errors keep their traceback."""
    hides = operator.methodcaller("errisinstance", DumpfilterError)
    for name, module in list(sys.modules.items()):
        if name.startswith(_HIDDEN):
            vars(module)["__tracebackhide__"] = hides
