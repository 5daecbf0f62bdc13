"""Install the system packages that a make target needs or, when not root, say exactly which to install.

usage: system_packages.py [--tests]

The demonstration needs a Python with venv, and Java for Spark. With ``--tests`` also MariaDB and a browser. Nothing
assumes which versions a distribution has: each need lists packages, and the first one that apt can install is taken.
Runs on any Python from 3.7 with the standard library alone, since this is what checks the Python's version.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, NamedTuple, Sequence  # noqa: UP035 (collections.abc's are no generics before 3.9)

PYTHON_AT_LEAST = (3, 11)
PYTHON_BELOW = (3, 15)
"""The packages of constraints.txt have wheels up to the release before this one."""

JAVA_RELEASES = (21, 17, 25)
"""Releases of Java that the tests have passed on. The distribution's own package is used where none of them is."""

MARIADB_AT_LEAST = (10, 11)
"""The oldest MariaDB that the tests have passed on."""


class Need(NamedTuple):
    """A program that a make target needs."""

    title: str
    packages: Sequence[str]
    """Debian packages any of which brings the program, the best first."""
    missing: Callable[[], str | None]
    """Return why the program cannot be used (absent or too old), or None when it can."""
    otherwise: str = ""
    """The advice where apt has none of the packages."""


def needs(*, tests: bool) -> list[Need]:
    """Return the needs of ``make demo``, and with ``tests`` those of ``make test``, too."""
    venv = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    found = [
        Need("Python's module venv", (venv, "python3-venv"), _venv_missing),
        Need(
            "Java",
            (*(f"openjdk-{release}-jre-headless" for release in JAVA_RELEASES), "default-jre-headless"),
            _java_missing,
        ),
    ]
    if tests:
        server = ("mariadb-server",)
        client = ("mariadb-client",)
        found += [
            Need("a MariaDB server", server, lambda: _mariadb_missing("mariadbd")),
            Need("mariadb-install-db", server, lambda: _absent("mariadb-install-db")),
            Need("the mariadb client", client, lambda: _mariadb_missing("mariadb")),
            Need("mariadb-binlog", client, lambda: _absent("mariadb-binlog")),
            Need(
                "a browser",
                ("chromium",),
                _browser_missing,
                # Ubuntu's chromium is a snap, which cannot read files in /tmp
                "install Google's package google-chrome-stable, since this system has no Debian package of Chromium",
            ),
            Need("libatomic, for the Node.js of Playwright", ("libatomic1",), _libatomic_missing),
        ]
    return found


def _which(program: str) -> str | None:
    """Find a program, also where Debian keeps daemons, which is not on a plain user's PATH."""
    return shutil.which(program) or shutil.which(program, path="/usr/local/sbin:/usr/sbin:/sbin")


def _absent(program: str) -> str | None:
    return None if _which(program) else f"{program} is not installed"


def _venv_missing() -> str | None:
    try:
        # Debian packs both apart from Python
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "this Python cannot make virtual environments"
    return None


def _java_missing() -> str | None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from dumpfilter.spark_jobs.spark.java import JAVA_AT_LEAST, find_java, java_release

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
    told = subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    version = re.search(r"(\d+)\.(\d+)\.\d+-MariaDB", told.stdout.decode("utf-8", "replace"))
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


def candidate(policy: str) -> bool:
    """Return whether apt can install a package, from what ``apt-cache policy`` prints of it.

    A package that others merely name, or provide, has the candidate ``(none)``.

    >>> candidate("chromium:\\n  Installed: (none)\\n  Candidate: 150.0.1\\n"), candidate("x:\\n  Candidate: (none)\\n")
    (True, False)
    """
    found = re.search(r"^\s*Candidate:\s*(\S+)", policy, re.MULTILINE)
    return found is not None and found[1] != "(none)"


def choose(packages: Sequence[str], installable: Callable[[str], bool]) -> str | None:
    """Return the first of the packages that apt can install, or None."""
    return next((package for package in packages if installable(package)), None)


def _apt_can_install(package: str) -> bool:
    told = subprocess.run(
        ["apt-cache", "policy", package],
        # apt translates "Candidate"
        env={**os.environ, "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return candidate(told.stdout.decode("utf-8", "replace"))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main(arguments: Sequence[str]) -> int:
    """Check, then install or advise. Return the exit status: 0 when nothing is missing afterwards."""
    if arguments not in ([], ["--tests"]):
        _say(str(__doc__))
        return 2
    problem = python_problem(sys.version_info[:2])
    if problem:
        _say(problem)
        return 1
    wanted = [(need, why) for need in needs(tests=bool(arguments)) for why in [need.missing()] if why]
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
        package = choose(need.packages, _apt_can_install)
        if package is None and need.otherwise:
            _say(f"{need.title}: {need.otherwise}")
            refused = True
        elif (package or need.packages[-1]) not in chosen:
            # without package lists (apt-get update has never run) there is no candidate, and the last is a fair guess
            chosen.append(package or need.packages[-1])
    command = ["install", "-y", "-qq", *chosen]
    if not root:
        if chosen:
            _say("Install as root, then call make again:\n  apt-get update")
            _say("  apt-get install " + " ".join(chosen))
        return 1
    if refused:
        return 1
    print("installing: " + " ".join(chosen), flush=True)
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
"""Another apt may be at work on a machine that has just started."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
