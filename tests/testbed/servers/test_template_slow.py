"""The templates of data directories."""

from __future__ import annotations

import contextlib
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dumpfilter.testbed.errors import StartFailed
from dumpfilter.testbed.servers import server as module
from dumpfilter.testbed.servers.server import CACHE_VARIABLE, find_program, make_data


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache directory, which is empty."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_template_is_made_once_for_parallel_users(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    make = module._make
    monkeypatch.setattr(module, "_make", lambda *given: made.append(given) or make(*given))
    program = find_program("mariadb")
    targets = [tmp_path / str(number) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda target: make_data(program, target), targets))
    assert len(made) == 1
    assert {(target / "ibdata1").stat().st_size for target in targets} == {
        (targets[0] / "ibdata1").stat().st_size
    }
    assert (cache / "servers").stat().st_mode & 0o077 == 0
    make_data(program, tmp_path / "page", ["--innodb_page_size=8k", "--max-connections=9"])
    assert len(made) == 2


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file")
    make_data(find_program("mariadb"), tmp_path / "data")
    assert (tmp_path / "data" / "ibdata1").exists()


def test_ctrl_c_while_a_template_is_made_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not list(cache.glob("servers/.*/data")) and time.monotonic() < deadline:
            time.sleep(0.002)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        make_data(find_program("mariadb"), tmp_path / "data")
    interrupting.join()
    assert [path.suffix for path in (cache / "servers").iterdir()] == [".lock"]
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            commands.append(path.read_bytes())
    assert not [command for command in commands if str(cache).encode() in command]


def test_a_data_directory_that_cannot_be_made_tells_why(tmp_path: Path, cache: Path) -> None:
    false = shutil.which("false")
    assert false is not None
    program = find_program("mariadb")._replace(install=false)
    with pytest.raises(StartFailed, match="false failed"):
        make_data(program, tmp_path / "data")
    assert [path.suffix for path in (cache / "servers").iterdir()] == [".lock"]
