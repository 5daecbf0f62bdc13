"""Install the system packages that a make target needs. Without root, name them exactly.

usage: system_packages.py python | demo | tests | --find-python

``python`` stands for a Python with venv and a C compiler, which is enough for ``make check``. ``demo`` adds Java, which
Spark needs, and the programs of a MariaDB server. ``tests`` adds a whole MariaDB and a browser. Each need names
alternative packages, of which ``apt-get satisfy`` takes the first that the distribution has.

``--find-python`` prints the first Python of a supported version, or nothing when the machine has none.

The script runs on any Python from 3.7 with the standard library alone, since it is what checks the Python's version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from ctypes.util import find_library
from importlib.util import find_spec
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence  # noqa: UP035 (collections.abc's are no generics before 3.9)

PYTHON_AT_LEAST = (3, 11)
PYTHON_BELOW = (3, 15)
"""The first Python without wheels of all packages in constraints.txt."""

JAVA_RELEASES = (21, 17, 25)
"""Releases of Java that the tests have passed on, the best first. Without any, the distribution's default is taken."""

MARIADB_AT_LEAST = (10, 11)
"""The oldest MariaDB that the tests have passed on."""

PARTS = ("python", "demo", "tests")
"""The arguments that name needs."""


class Need(NamedTuple):
    """A program that a make target needs, with the Debian packages that bring the program."""

    title: str
    packages: str
    """Debian packages any of which brings the program, the best first, as in a package's field Depends."""
    missing: str
    """The reason why the program cannot be used (absent or too old), or an empty text when it can."""
    otherwise: str = ""
    """The advice where apt has none of the packages."""


def needs(part: str) -> Iterator[Need]:
    """Yield the programs that a part of the make targets needs, with their Debian packages. ``part`` is an entry of
    PARTS, and includes the needs of the entries before it.
    """
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    # Debian's package of Python lacks both modules.
    venv = _unless(
        find_spec("ensurepip") and find_spec("venv"), "this Python cannot make virtual environments"
    )
    yield Need("Python's module venv", f"{python}-venv | python3-venv", venv)
    yield Need("a C compiler", "gcc", _unless(shutil.which("cc"), "gcc is not installed"))
    yield Need("C's header files", "libc6-dev", _header("/usr/include", "stdlib.h"))
    header = _header(sysconfig.get_path("include"), "Python.h")
    yield Need("Python's header files", f"{python}-dev | python3-dev", header)
    if part != "python":
        releases = "".join(f"openjdk-{release}-jre-headless | " for release in JAVA_RELEASES)
        yield Need("Java", releases + "default-jre-headless", _java())
    # Debian's MariaDB and MySQL exclude each other. A machine with MySQL keeps it, and the demonstration leaves out its
    # part with real servers.
    if part == "demo" and (_which("mariadbd") or not _which("mysqld")):
        # These packages bring the programs alone. Debian's mariadb-server would also start a service.
        for program in ("mariadbd", "mariadb-install-db", "my_print_defaults"):
            side = "client" if program == "my_print_defaults" else "server"
            yield Need(program, f"mariadb-{side}-core | mariadb-{side}", _program(program))
    if part == "tests":
        yield Need("mariadbd", "mariadb-server", _mariadb("mariadbd"))
        yield Need("mariadb", "mariadb-client", _mariadb("mariadb"))
        yield Need("mariadb-install-db", "mariadb-server", _program("mariadb-install-db"))
        yield Need("mariadb-binlog", "mariadb-client", _program("mariadb-binlog"))
        yield Need("openssl", "openssl", _program("openssl"))
        yield Need("systemd-analyze", "systemd", _program("systemd-analyze"))
        yield Need(
            "a browser",
            "chromium",
            _unless(shutil.which("chromium") or shutil.which("google-chrome"), "no Chromium and no Chrome"),
            # Ubuntu's chromium is a snap, which cannot read files in /tmp.
            "install Google's package google-chrome-stable, since this system has no Debian package of Chromium",
        )
        libatomic = _unless(find_library("atomic"), "libatomic.so.1 is not installed")
        yield Need("libatomic, for the Node.js of Playwright", "libatomic1", libatomic)


_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def _unless(found: object, reason: str) -> str:
    return "" if found else reason


def _which(program: str) -> str | None:
    """Return the path of a program. Debian's daemons are found, too, though a plain user's PATH does not lead there."""
    return shutil.which(program) or shutil.which(program, path=_SBIN)


def _program(name: str) -> str:
    return _unless(_which(name), f"{name} is not installed")


def _header(directory: str, name: str) -> str:
    return _unless(Path(directory, name).exists(), f"{directory} has no {name}")


def _java() -> str:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from dumpfilter.spark_jobs.java import JAVA_AT_LEAST, find_java, java_release

    java = find_java()
    if java is None:
        return "java is not installed"
    release = java_release(java) or JAVA_AT_LEAST
    too_old = f"{java} is Java {release}, and Spark needs {JAVA_AT_LEAST} or later"
    return _unless(release >= JAVA_AT_LEAST, too_old)


def _mariadb(program: str) -> str:
    path = _which(program)
    if path is None:
        return f"{program} is not installed"
    version = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", _printed(path, "--version"))
    if version is None:
        return f"{path} is not MariaDB's"
    too_old = f"{path} is of MariaDB {version[1]}.{version[2]}, and the tests need {_dotted(MARIADB_AT_LEAST)} or later"
    return _unless((int(version[1]), int(version[2])) >= MARIADB_AT_LEAST, too_old)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version[:2]))


def python_problem(version: Sequence[int]) -> str:
    """Return why a Python of this version cannot be used, or an empty text when it can.

    >>> python_problem((3, 13)), python_problem((3, 9)).split(";")[0]
    ('', 'dumpfilter needs Python 3.11 to 3.14, and this is 3.9')
    """
    newest = PYTHON_BELOW[0], PYTHON_BELOW[1] - 1
    return _unless(
        PYTHON_AT_LEAST <= tuple(version[:2]) < PYTHON_BELOW,
        f"dumpfilter needs Python {_dotted(PYTHON_AT_LEAST)} to {_dotted(newest)}, and this is {_dotted(version)}; "
        "install another one and name it: make PYTHON=/path/to/python3",
    )


def find_python() -> str | None:
    """Return the path of the first supported Python, python3 before python3.N, or None."""
    names = [f"python3.{minor}" for minor in range(PYTHON_BELOW[1] - 1, PYTHON_AT_LEAST[1] - 1, -1)]
    for path in filter(None, map(shutil.which, ["python3", *names])):
        version = _printed(path, "-c", "import sys; print(*sys.version_info[:2])").split()
        if version and not python_problem([int(part) for part in version]):
            return path
    return None


def _printed(*command: str) -> str:
    """Return what a program prints on standard output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode("utf-8", "replace")


def _say(*lines: str) -> int:
    """Print lines to standard error, and return the exit status 1 if there are any."""
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


def main(arguments: Sequence[str]) -> int:
    """Check the needs of a part of the make targets, and install the missing packages, or name them without root.

    ``arguments`` are the words of the command line. Return the exit status, 0 if nothing is missing afterwards.
    """
    if arguments == ["--find-python"]:
        print(find_python() or "")
        return 0
    if len(arguments) != 1 or arguments[0] not in PARTS:
        _say(str(__doc__))
        return 2
    problem = python_problem(sys.version_info[:2])
    if problem:
        return _say(problem)
    wanted = [need for need in needs(arguments[0]) if need.missing]
    if not _say(*(f"missing: {need.title} ({need.missing})" for need in wanted)):
        return 0
    if shutil.which("apt-get") is None:
        return _say("This system has no apt-get. Install what is missing with its own package manager.")
    packages = ", ".join(dict.fromkeys(need.packages for need in wanted))
    if os.geteuid() != 0:
        satisfy = f"  apt-get satisfy '{packages}'"
        return _say("Install as root, then call make again:", "  apt-get update", satisfy)
    if _apt_get("update"):
        _say("apt-get update failed: see above. The package lists may be old.")
    print(f"installing: {packages}", flush=True)
    if _apt_get("satisfy", "-y", packages):
        cures = [f"{need.title}: {need.otherwise}" for need in wanted if need.otherwise]
        return _say("apt-get satisfy failed: see above.", *cures)
    return _say(*(f"still missing: {need.missing}" for need in needs(arguments[0]) if need.missing))


def _apt_get(command: str, *arguments: str) -> int:
    # It waits up to 600 seconds, since another apt may be at work on a machine that has just started.
    return subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=600", command, "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
