"""Rules of a test run: its temporary directory, its quick part, and texts that passing tests print.

Every run has a temporary directory of its own, in memory where there is room. A run fails when a test leaves a file in
the directory outside pytest's own folders.

``--quick`` runs the tests that need no server, no Java and no browser, and that take seconds. The other tests are in
files named ``test_…_slow.py``. In a quick run the programs that quick tests must not start are replaced by a failing
script. A test with the mark ``every_recording`` has a case for each recording. A quick run takes only its cases of
``QUICK_RECORDINGS``.

``record_property("said", text)`` makes a passing test print a text at the end of the run.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol
from hypothesis import settings

from tests.kernel_arguments import check_arguments

# before modules with kernels are imported
check_arguments()

if TYPE_CHECKING:
    from tests.slave.processes import Launcher

TESTS = Path(__file__).parent

SLOW = "_slow.py"
"""The end of the names of files with slow tests."""

QUICK_TIMEOUT = 60
"""The longest time of a quick test, seconds. It stops hanging tests and is generous, since a machine may be busy."""

FORBIDDEN_IN_QUICK = (
    "java",
    "mariadb",
    "mariadb-binlog",
    "mariadb-install-db",
    "mariadbd",
    "chromium",
    "google-chrome",
)
"""Programs that only slow tests start."""

QUICK_RECORDINGS = (
    "mariadb-mixed",
    "mariadb-write-mixed",
    "mariadb105-types",
    "mariadb118-statement",
    "mysql-mixed",
    "mysql-row",
    "mysql-write-mixed",
    "mysql55-types",
    "mysql57-mixed",
    "mysql97-new-formats-row",
)
"""A sample of the recordings: each server family, each binlog format, and the oldest and newest versions."""

PREFIX = "dumpfilter-tests-"
"""The name of a run's temporary directory, before the number of its process."""

MEMORY_DISK = Path("/dev/shm")
MEMORY_DISK_ROOM = 4 << 30
"""The free space that makes the memory disk large enough for a run, bytes. A run has used up to a quarter of it."""

# A slow machine is no defect. Derandomized examples make a run repeatable: it fails by what the change did, and not by
# chance. The profile "search" looks for new examples: pytest --hypothesis-profile=search.
settings.register_profile("dumpfilter", deadline=None, derandomize=True, database=None, max_examples=40)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("dumpfilter")

_temporary = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help=f"leave out the files named *{SLOW}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out slow files in a quick run."""
    return True if config.getoption("quick") and collection_path.name.endswith(SLOW) else None


class _OnlyExamples:
    """A plugin that looks for doctests only in the product's files that have one.

    A search through all modules takes some seconds in each worker. A conftest.py's own hook does not see files outside
    its directory.
    """

    @staticmethod
    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        file_path: Path,
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        if TESTS not in file_path.parents and b">>> " in file_path.read_bytes():
            return found
        return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make the temporary directory of the run. The workers of pytest-xdist inherit it with the environment."""
    config.addinivalue_line(
        "markers", "every_recording: a quick run takes only the cases of QUICK_RECORDINGS"
    )
    config.pluginmanager.register(_OnlyExamples())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs like this, and processes that ignore Ctrl-C cannot be tested for it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    parent = _roomiest()
    _remove_orphans(parent)
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
    config.stash[_temporary] = directory
    _use(directory)
    if config.getoption("quick"):
        _forbid(FORBIDDEN_IN_QUICK, directory / "pytest-forbidden")
        config.option.timeout = QUICK_TIMEOUT


def _roomiest() -> Path | None:
    """Return the memory disk if it has room and the caller names no TMPDIR, else None (the default directory)."""
    if "TMPDIR" in os.environ or not os.access(MEMORY_DISK, os.W_OK):
        return None
    return MEMORY_DISK if shutil.disk_usage(MEMORY_DISK).free >= MEMORY_DISK_ROOM else None


def _remove_orphans(parent: Path | None) -> None:
    """Remove the directories of killed runs, which would fill the memory."""
    for left in (parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}[0-9]*-*"):
        if not Path("/proc", left.name.removeprefix(PREFIX).partition("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)


def _use(directory: Path) -> None:
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)


def _forbid(programs: tuple[str, ...], directory: Path) -> None:
    """Put failing scripts with the programs' names in front of the PATH."""
    directory.mkdir()
    for name in programs:
        script = directory / name
        script.write_text(
            f"#!/bin/sh\necho 'a quick test starts {name}: move it to a file named test_…{SLOW}' >&2\nexit 97\n"
        )
        script.chmod(0o755)
    os.environ["PATH"] = f"{directory}:{os.environ['PATH']}"
    os.environ.pop("JAVA_HOME", None)


def is_quick(item: pytest.Item) -> bool:
    """Tell whether a quick run has a test: no slow file's, and of a case of each recording those of the sample.

    A case's id names its recording, alone or before further words.
    """
    if item.path.name.endswith(SLOW) or item.get_closest_marker("every_recording") is None:
        return not item.path.name.endswith(SLOW)
    words = item.name.partition("[")[2].rstrip("]").split("/")
    return any(word == name or word.startswith(f"{name}-") for word in words for name in QUICK_RECORDINGS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the collected tests out of all garbage collections, which would walk 15,000 tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep each file on one worker, which makes the file's servers, recordings and caches once.

    A mark that a test gets after its collection comes too late for pytest-xdist.
    """
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out recordings in a quick run, and begin with the slow files.

    With ``--no-loadscope-reorder`` pytest-xdist hands out the files in this order. The quick files, of seconds each,
    come last, so that the workers end at nearly the same time.
    """
    if config.getoption("quick"):
        left_out = [item for item in items if not is_quick(item)]
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    items.sort(key=lambda item: not item.path.name.endswith(SLOW))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a passed test from a worker, where pytest-xdist would send five messages, in 2 ms each test.

    The option ``--durations`` needs all reports.
    """
    if not hasattr(item.config, "workerinput") or item.config.getoption("durations") is not None:
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run when tests left files in the temporary directory."""
    directory = session.config.stash.get(_temporary, None)
    if directory is None:
        return
    left = sorted(path.name for path in directory.iterdir() if not path.name.startswith("pytest-"))
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(
            f"\nFAILED: tests left {len(left)} files in {directory}: {', '.join(left[:10])}", red=True
        )
    elif session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        shutil.rmtree(directory, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the texts that passing tests recorded."""
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "said":
                terminalreporter.write_line(str(text))


@pytest.fixture(scope="session", autouse=True)
def _tiny_chunks() -> Iterator[None]:
    """Let slaves ask the masters of this process for small chunks, so that a stream is cut in many places."""
    from dumpfilter.master import limits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MIN_CHUNK_SIZE", 1)
        patch.setattr(limits, "MIN_HEARTBEAT_PERIOD", 0.01)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_tls_context() -> Iterator[None]:
    """Let PyMySQL's connections without options for TLS share a context.

    Each would load all CA certificates of the machine, which takes 25 ms, and verify none.
    """
    from pymysql.connections import Connection

    made: dict[str, object] = {}
    create = Connection._create_ssl_ctx

    def shared(connection: Connection[Any], options: Any) -> object:
        if options != {}:
            return create(connection, options)
        if "default" not in made:
            made["default"] = create(connection, options)
        return made["default"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "_create_ssl_ctx", shared)
        yield


@pytest.fixture(scope="session")
def one_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Start the launcher of all tests, because a start takes a second."""
    # Most parts of a run need no launcher, and its module is large.
    from tests.slave.processes import Launcher

    made = Launcher(tmp_path_factory.mktemp("launcher"))
    yield made
    made.close()


@pytest.fixture
def launcher(one_launcher: Launcher, tmp_path: Path) -> Iterator[Launcher]:
    """Return a launcher of processes whose files are in the test's directory."""
    one_launcher.directory = tmp_path
    yield one_launcher
    one_launcher.kill_all()
