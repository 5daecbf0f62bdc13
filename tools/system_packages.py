"""Install the system packages that a make target needs. Without root, name them exactly.

usage: system_packages.py python | demo | tests | --find-python

``python`` stands for a Python with venv and a C compiler, which is enough for ``make check``. ``demo`` adds Java, which
Spark needs, and the programs of a MariaDB server. ``tests`` adds a whole MariaDB and a browser. Each need lists
packages, of which the script takes the first that apt can install. The script assumes nothing else about the versions
that a distribution has.

``--find-python`` prints the first Python of a supported version, or nothing when the machine has none.

The script runs on any Python from 3.7 with the standard library alone, since it is what checks the Python's version.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple, Sequence  # noqa: UP035 (collections.abc's are no generics before 3.9)

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
    """A program that a make target needs."""

    title: str
    packages: Sequence[str]
    """Debian packages any of which brings the program, the best first."""
    missing: Callable[[], str | None]
    """Return why the program cannot be used (absent or too old), or None when it can."""
    otherwise: str = ""
    """The advice where apt has none of the packages."""


def needs(part: str) -> list[Need]:
    """Return the needs of a part of PARTS. Each part has those of the parts before it, too."""
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = [
        Need("Python's module venv", (f"{python}-venv", "python3-venv"), _venv_missing),
        Need("a C compiler", ("gcc",), lambda: None if shutil.which("cc") else _absent("gcc")),
        Need("C's header files", ("libc6-dev",), lambda: _header_missing("/usr/include", "stdlib.h")),
        Need(
            "Python's header files",
            (f"{python}-dev", "python3-dev"),
            lambda: _header_missing(sysconfig.get_path("include"), "Python.h"),
        ),
    ]
    if part in ("demo", "tests"):
        releases = [f"openjdk-{release}-jre-headless" for release in JAVA_RELEASES]
        found.append(Need("Java", (*releases, "default-jre-headless"), _java_missing))
    if part == "demo":
        # These packages bring the programs alone. Debian's mariadb-server would also start a service.
        found += [
            Need(program, (f"mariadb-{side}-core", f"mariadb-{side}"), partial(_absent_beside_mysql, program))
            for program, side in (
                ("mariadbd", "server"),
                ("mariadb-install-db", "server"),
                ("my_print_defaults", "client"),
            )
        ]
    if part == "tests":
        found += [
            Need("mariadbd", ("mariadb-server",), lambda: _mariadb_missing("mariadbd")),
            Need("mariadb", ("mariadb-client",), lambda: _mariadb_missing("mariadb")),
            *(
                Need(program, (package,), partial(_absent, program))
                for program, package in (
                    ("mariadb-install-db", "mariadb-server"),
                    ("mariadb-binlog", "mariadb-client"),
                    ("openssl", "openssl"),
                    ("systemd-analyze", "systemd"),
                )
            ),
            Need(
                "a browser",
                ("chromium",),
                _browser_missing,
                # Ubuntu's chromium is a snap, which cannot read files in /tmp.
                "install Google's package google-chrome-stable, since this system has no Debian package of Chromium",
            ),
            Need("libatomic, for the Node.js of Playwright", ("libatomic1",), _libatomic_missing),
        ]
    return found


_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def _which(program: str) -> str | None:
    """Return the path of a program. Debian's daemons are found, too, though a plain user's PATH does not lead there."""
    return shutil.which(program) or shutil.which(program, path=_SBIN)


def _absent(program: str) -> str | None:
    return None if _which(program) else f"{program} is not installed"


def _absent_beside_mysql(program: str) -> str | None:
    """Return why the demonstration lacks a program of MariaDB, or None when it needs none.

    Debian's MariaDB and MySQL exclude each other. A machine with MySQL keeps it, and the demonstration leaves out its
    part with real servers.
    """
    return None if _which("mysqld") and not _which("mariadbd") else _absent(program)


def _venv_missing() -> str | None:
    try:
        # Debian's package of Python lacks both modules.
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "this Python cannot make virtual environments"
    return None


def _header_missing(directory: str, name: str) -> str | None:
    return None if Path(directory, name).exists() else f"{directory} has no {name}"


def _java_missing() -> str | None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from dumpfilter.spark_jobs.java import JAVA_AT_LEAST, find_java, java_release

    java = find_java()
    if java is None:
        return "java is not installed"
    release = java_release(java)
    if release is not None and release < JAVA_AT_LEAST:
        return f"{java} is Java {release}, and Spark needs {JAVA_AT_LEAST} or later"
    return None


def _mariadb_missing(program: str) -> str | None:
    path = _which(program)
    if path is None:
        return f"{program} is not installed"
    version = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", _printed(path, "--version"))
    if version is None:
        return f"{path} is not MariaDB's"
    if (int(version[1]), int(version[2])) < MARIADB_AT_LEAST:
        oldest = ".".join(map(str, MARIADB_AT_LEAST))
        return f"{path} is of MariaDB {version[1]}.{version[2]}, and the tests need {oldest} or later"
    return None


def _browser_missing() -> str | None:
    return None if shutil.which("chromium") or shutil.which("google-chrome") else "no Chromium and no Chrome"


def _libatomic_missing() -> str | None:
    try:
        ctypes.CDLL("libatomic.so.1")
    except OSError:
        return "libatomic.so.1 is not installed"
    return None


def python_problem(version: Sequence[int]) -> str | None:
    """Return why a Python of this version cannot be used, or None when it can.

    >>> python_problem((3, 13)), python_problem((3, 9)).split(";")[0]
    (None, 'dumpfilter needs Python 3.11 to 3.14, and this is 3.9')
    """
    if PYTHON_AT_LEAST <= tuple(version[:2]) < PYTHON_BELOW:
        return None
    newest = f"{PYTHON_BELOW[0]}.{PYTHON_BELOW[1] - 1}"
    oldest = ".".join(map(str, PYTHON_AT_LEAST))
    this = ".".join(map(str, version[:2]))
    return (
        f"dumpfilter needs Python {oldest} to {newest}, and this is {this}; "
        "install another one and name it: make PYTHON=/path/to/python3"
    )


def find_python() -> str | None:
    """Return the path of the first supported Python, python3 before python3.N, or None."""
    names = [f"python3.{minor}" for minor in range(PYTHON_BELOW[1] - 1, PYTHON_AT_LEAST[1] - 1, -1)]
    for path in filter(None, map(shutil.which, ["python3", *names])):
        version = _printed(path, "-c", "import sys; print(*sys.version_info[:2])").split()
        if version and python_problem([int(part) for part in version]) is None:
            return path
    return None


def candidate(policy: str) -> bool:
    r"""Tell from the output of ``apt-cache policy`` whether apt can install the package.

    A package that other packages only name or provide has the candidate ``(none)``.

    >>> candidate("chromium:\n  Candidate: 150.0.1\n"), candidate("x:\n  Candidate: (none)\n")
    (True, False)
    """
    found = re.search(r"^\s*Candidate:\s*(\S+)", policy, re.MULTILINE)
    return found is not None and found[1] != "(none)"


def choose(packages: Sequence[str], installable: Callable[[str], bool]) -> str | None:
    """Return the first of the packages that apt can install, or None."""
    return next((package for package in packages if installable(package)), None)


def _printed(*command: str) -> str:
    """Return what a program prints on standard output. Other locales would translate apt's "Candidate"."""
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return done.stdout.decode("utf-8", "replace")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Check a part's needs, then install or name packages. Return the exit status, 0 when nothing is missing then."""
    if arguments == ["--find-python"]:
        print(find_python() or "")
        return 0
    if len(arguments) != 1 or arguments[0] not in PARTS:
        _say(str(__doc__))
        return 2
    problem = python_problem(sys.version_info[:2])
    if problem:
        _say(problem)
        return 1
    wanted = [(need, why) for need in needs(arguments[0]) for why in [need.missing()] if why]
    if not wanted:
        return 0
    for need, why in wanted:
        _say(f"missing: {need.title} ({why})")
    if shutil.which("apt-get") is None:
        _say("This system has no apt-get. Install what is missing with its own package manager.")
        return 1
    root = os.geteuid() == 0
    if root and subprocess.run([*_APT, "update", "-qq"], check=False).returncode:
        _say("apt-get update failed: see above. The package lists may be old.")
    chosen: list[str] = []
    refused = False
    for need, _ in wanted:
        package = choose(need.packages, lambda name: candidate(_printed("apt-cache", "policy", name)))
        if package is None and need.otherwise:
            _say(f"{need.title}: {need.otherwise}")
            refused = True
        elif (package or need.packages[-1]) not in chosen:
            # Before the first apt-get update no package has a candidate. The last package is the likeliest to exist.
            chosen.append(package or need.packages[-1])
    if not root and chosen:
        _say("Install as root, then call make again:\n  apt-get update")
        _say("  apt-get install " + " ".join(chosen))
    if not root or refused:
        return 1
    print("installing: " + " ".join(chosen), flush=True)
    command = ["install", "-y", "-qq", *chosen]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run([*_APT, *command], env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        _say("apt-get install failed: see above.")
        return 1
    left = [why for need, _ in wanted for why in [need.missing()] if why]
    for why in left:
        _say(f"still missing: {why}")
    return 1 if left else 0


_APT = ("apt-get", "-o", "DPkg::Lock::Timeout=600")
"""The command apt-get. It waits, since another apt may be at work on a machine that has just started, seconds."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
