"""Install the system packages that a make target needs. Without root, name them exactly.

usage: system_packages.py python | demo | tests

``python`` stands for a Python with venv and a C compiler, which is enough for ``make check``. ``demo`` adds Java, which
Spark needs, and the programs of a MariaDB server. ``tests`` adds a whole MariaDB and a browser. Each need names
alternative packages, of which ``apt-get satisfy`` takes the first that the distribution has.

The script runs on any Python from 3.7 with the standard library alone, since it is what checks the Python's version.
"""

from __future__ import annotations

import os
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

PROGRAMS_OF_TESTS = (
    ("mariadbd", "mariadb-server"),
    ("mariadb-install-db", "mariadb-server"),
    ("mariadb", "mariadb-client"),
    ("mariadb-binlog", "mariadb-client"),
    ("openssl", "openssl"),
    ("systemd-analyze", "systemd"),
)
"""The programs that the tests call, with the Debian packages that bring them."""


class Need(NamedTuple):
    """A program or file that a make target needs, with the Debian packages that bring it."""

    title: str
    packages: str
    """Debian packages any of which is enough, the best first, as in a package's field Depends."""
    is_there: bool


def needs(part: str) -> Iterator[Need]:
    """Yield the programs that a part of the make targets needs, with their Debian packages. ``part`` is ``python``,
    ``demo`` or ``tests``, and includes the needs of the parts before it.
    """
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    # Debian's package of Python lacks both modules.
    has_venv = bool(find_spec("ensurepip") and find_spec("venv"))
    has_header = Path(sysconfig.get_path("include"), "Python.h").exists()
    yield Need("Python's module venv", f"{python}-venv | python3-venv", has_venv)
    yield Need("a C compiler", "gcc", _has("cc"))
    yield Need("C's header files", "libc6-dev", Path("/usr/include/stdlib.h").exists())
    yield Need("Python's header files", f"{python}-dev | python3-dev", has_header)
    if part != "python":
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        from dumpfilter.spark_jobs.java import JAVA_AT_LEAST, find_java, java_release

        java = find_java()
        has_java = java is not None and (java_release(java) or JAVA_AT_LEAST) >= JAVA_AT_LEAST
        releases = "".join(f"openjdk-{release}-jre-headless | " for release in JAVA_RELEASES)
        yield Need(f"Java {JAVA_AT_LEAST} or later", releases + "default-jre-headless", has_java)
    # Debian's MariaDB and MySQL exclude each other. A machine with MySQL keeps it, and the demonstration leaves out its
    # part with real servers.
    if part == "demo" and (_has("mariadbd") or not _has("mysqld")):
        # These packages bring the programs alone. Debian's mariadb-server would also start a service.
        for program in ("mariadbd", "mariadb-install-db", "my_print_defaults"):
            side = "client" if program == "my_print_defaults" else "server"
            yield Need(program, f"mariadb-{side}-core | mariadb-{side}", _has(program))
    if part == "tests":
        for program, package in PROGRAMS_OF_TESTS:
            yield Need(program, package, _has(program))
        # Ubuntu's chromium is a snap, which cannot read files in /tmp.
        browser = "a browser (on Ubuntu, Google's package google-chrome-stable)"
        yield Need(browser, "chromium", _has("chromium") or _has("google-chrome"))
        yield Need("libatomic, for the Node.js of Playwright", "libatomic1", bool(find_library("atomic")))


_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def _has(program: str) -> bool:
    """Tell whether a program is installed. Debian's daemons are found, too, though a plain user's PATH does not lead
    there.
    """
    return bool(shutil.which(program) or shutil.which(program, path=_SBIN))


def python_problem(version: Sequence[int]) -> str:
    """Return why a Python of this version cannot be used, or an empty text when it can.

    >>> python_problem((3, 13)), python_problem((3, 9)).split(";")[0]
    ('', 'dumpfilter needs Python 3.11 to 3.14, and this is 3.9')
    """
    if PYTHON_AT_LEAST <= tuple(version[:2]) < PYTHON_BELOW:
        return ""
    this = ".".join(map(str, version[:2]))
    return (
        f"dumpfilter needs Python 3.{PYTHON_AT_LEAST[1]} to 3.{PYTHON_BELOW[1] - 1}, and this is {this}; "
        "install another one and name it: make PYTHON=/path/to/python3"
    )


def _missing(part: str) -> list[Need]:
    """Return the missing needs of a part of the make targets, and print them to standard error."""
    missing = [need for need in needs(part) if not need.is_there]
    for need in missing:
        print(f"missing: {need.title}", file=sys.stderr)
    return missing


def main(part: str) -> str | None:
    """Install the packages that a part of the make targets misses. Return why something is still missing, or None.

    Without root, the returned text has the commands that install the packages.
    """
    problem = python_problem(sys.version_info[:2])
    if problem:
        return problem
    missing = _missing(part)
    if not missing:
        return None
    if shutil.which("apt-get") is None:
        return "This system has no apt-get. Install what is missing with its own package manager."
    packages = ", ".join(dict.fromkeys(need.packages for need in missing))
    if os.geteuid() != 0:
        return f"Install as root, then call make again:\n  apt-get update\n  apt-get satisfy '{packages}'"
    print(f"installing: {packages}", flush=True)
    _apt_get("update")
    _apt_get("satisfy", "-y", packages)
    return "apt-get has not installed all: see above." if _missing(part) else None


def _apt_get(command: str, *arguments: str) -> None:
    # It waits up to 600 seconds, since another apt may be at work on a machine that has just started.
    subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=600", command, "-qq", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.DEVNULL,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
