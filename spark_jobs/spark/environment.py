"""The packing of one archive with all Python packages that a cluster's workers need to run the jobs.

The archive is a virtual environment without pip and scripts. It holds:

- ``bin/python``, a link to the workers' interpreter;
- the packages that ``dumpfilter[spark]`` requires, but for PySpark, which comes with the workers' Spark, and the
  packages that only draw reports;
- dumpfilter with its compiled kernels, even if it is installed in editable mode.

Spark unpacks the archive wherever an executor runs (``spark.archives``).

The environment can be moved because no file in it holds its path. ``pyvenv.cfg`` names only the base interpreter (PEP
405), and scripts, which name their environment's interpreter, are left out. Numba's index of compiled kernels holds
the processor and a digest of the source. Older versions of numba keep the source's time and size, which the archive
preserves. On another processor each executor compiles the kernels again, once.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dumpfilter.errors import DumpfilterError, OptionError, OutputError
from dumpfilter.spark_jobs.spark.daemon import PACKAGE, package_folder

OWN = "dumpfilter"
"""The name of this product as an installed distribution."""

SOURCE_PACKAGE = "pyspark_binlog"
"""The package by which Spark finds the data source. It lies beside dumpfilter's own folder."""

EXTRA = "spark"
"""The extra that users install for the Spark jobs: ``pip install dumpfilter[spark]``."""

NOT_PACKED = frozenset({"pyspark", "py4j", "jinja2"})
"""The packages that are left out of the archive. PySpark and py4j come with the workers' Spark. Only the driver uses
jinja2, which renders the bandwidth report."""

LEFT_OUT = frozenset({"__pycache__", "tests"})
"""The directories of packages that are left out of the archive, because no job reads them."""

INSTALLERS = frozenset({"RECORD", "direct_url.json", "INSTALLER", "REQUESTED"})
"""The files that describe how pip installed a package. They are left out of the archive, because they name paths."""

SITE_PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"

Progress = Callable[[int, int], None]
"""A function that shows the progress of packing. Its arguments are the bytes packed so far and the bytes to pack."""


class EnvironmentUnusable(DumpfilterError):
    """An error raised when an installed package cannot be packed. The text names the package and the remedy."""


@dataclass(frozen=True)
class Packed:
    """The result of packing the workers' Python environment into an archive.

    ``bytes`` is the size of all unpacked files, and ``size`` the size of the archive. ``python`` is the path of the
    interpreter that the workers will run.
    """

    path: Path
    python: str
    packages: int
    files: int
    bytes: int
    size: int


def package_environment(
    output: Path, *, python: str | None = None, progress: Progress | None = None
) -> Packed:
    """Pack the Python packages that a cluster's workers need into ``output``, an archive ``NAME.tar.gz``.

    ``python`` is the path of the workers' interpreter, which must have the same minor version. The default is this
    machine's path. An existing ``output`` is replaced after the new archive is complete.

    Raises OptionError for an unusable name or path, EnvironmentUnusable, or OutputError.
    """
    if not output.name.endswith((".tar.gz", ".tgz")):
        # Spark unpacks .tar.gz with the system's tar, which keeps links. Spark unpacks other archives itself
        # and loses their links.
        raise OptionError(f"{output}: the archive's name has to end in .tar.gz")
    python = python or os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if not PurePosixPath(python).is_absolute():
        raise OptionError(f"--python {python}: a path that starts with / is wanted")
    distributions = needed_distributions()
    try:
        with tempfile.TemporaryDirectory(prefix="dumpfilter-environment-") as scratch:
            own = Path(scratch)
            _copy_own_packages(own)
            _compile_kernels(own)
            found = {SITE_PACKAGES + "/" + name: path for name, path in _own_files(own)}
            for distribution in distributions:
                found |= {f"{SITE_PACKAGES}/{name}": path for name, path in distribution_files(distribution)}
            total = _write(output, python, found, progress)
    except OSError as error:
        about = Path(error.filename or output)
        where = output if about.name.startswith(_part_of(output)) else about
        raise OutputError(f"{where}: {error.strerror or error}") from None
    return Packed(output, python, len(distributions), len(found), total, output.stat().st_size)


def needed_distributions() -> list[importlib.metadata.Distribution]:
    """Return the installed distributions that ``dumpfilter[spark]`` requires on workers, without dumpfilter itself.

    Raises EnvironmentUnusable when a required distribution is not installed.
    """
    try:
        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name
    except ImportError:
        raise EnvironmentUnusable("packaging is not installed: pip install 'dumpfilter[spark]'") from None
    found: dict[str, importlib.metadata.Distribution] = {}
    asked: set[tuple[str, frozenset[str]]] = set()
    wanted = [Requirement(f"{OWN}[{EXTRA}]")]
    while wanted:
        requirement = wanted.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name in NOT_PACKED or (name, extras) in asked:
            continue
        asked.add((name, extras))
        try:
            distribution = importlib.metadata.distribution(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            raise EnvironmentUnusable(
                f"{requirement.name} is not installed: pip install 'dumpfilter[spark]'"
            ) from None
        found.setdefault(name, distribution)
        for text in distribution.requires or []:
            needs = Requirement(text)
            if needs.marker is None or any(needs.marker.evaluate({"extra": e}) for e in (extras or {""})):
                wanted.append(needs)
    del found[OWN]
    return list(found.values())


def distribution_files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of an installed package that belong into the archive.

    Each item is the file's name below site-packages, and the file's path on this machine.

    Scripts, caches, tests and the installer's records are left out. Raises EnvironmentUnusable for a distribution
    that is installed in editable mode, or that has no list of its files.
    """
    name = distribution.metadata["Name"]
    files = distribution.files
    if files is None:
        raise EnvironmentUnusable(f"{name} does not know its files (no RECORD): install it with pip")
    told = json.loads(distribution.read_text("direct_url.json") or "{}")
    if told.get("dir_info", {}).get("editable"):
        raise EnvironmentUnusable(f"{name} is installed in editable mode: install it with pip install")
    for file in files:
        first, *_ = file.parts
        if first == ".." or file.is_absolute() or LEFT_OUT & set(file.parts):
            continue
        if first.endswith(".dist-info") and file.name in INSTALLERS:
            continue
        path = Path(str(distribution.locate_file(file)))
        if path.is_file():
            yield file.as_posix(), path


def _copy_own_packages(to: Path) -> None:
    """Copy the packages of dumpfilter with numba's compiled functions. Symbolic links become folders."""
    folder = package_folder()
    for name in (PACKAGE, SOURCE_PACKAGE):
        shutil.copytree(
            folder.parent / name, to / name, ignore=shutil.ignore_patterns("tests", "*.pyc", "*.tmp.*")
        )


def _compile_kernels(own: Path) -> None:
    """Compile those numba functions in the copied package that are not compiled yet, so that workers start fast."""
    surroundings = {
        name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")
    }
    ran = subprocess.run(
        [sys.executable, "-m", "dumpfilter.warm_up"],
        env={**surroundings, "PYTHONPATH": str(own)},
        cwd=own,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        lines = ran.stderr.strip().splitlines()
        raise EnvironmentUnusable(f"the kernels cannot be compiled: {lines[-1] if lines else ran.returncode}")


def _own_files(own: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(own.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(own).as_posix(), path


def _write(output: Path, python: str, files: dict[str, Path], progress: Progress | None) -> int:
    """Write the archive under a temporary name, then rename it to ``output``, so that no half archive is ever used.

    Return the size of the unpacked files, bytes.
    """
    sizes = {name: path.stat().st_size for name, path in files.items()}
    total, done = sum(sizes.values()), 0
    with tempfile.NamedTemporaryFile(
        dir=output.parent, prefix=_part_of(output), suffix=".part", delete=False
    ) as raw:
        try:
            # Most of the content is compiled libraries, which a higher compression level hardly makes smaller.
            with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=1) as archive:
                _add_interpreter(archive, python)
                for name, path in sorted(files.items()):
                    with path.open("rb") as content:
                        archive.addfile(_plain(archive.gettarinfo(arcname=name, fileobj=content)), content)
                    done += sizes[name]
                    if progress is not None:
                        progress(done, total)
            raw.flush()
            os.fsync(raw.fileno())
            os.chmod(raw.name, 0o644)
            os.replace(raw.name, output)
        except BaseException:
            os.unlink(raw.name)
            raise
    return total


def _part_of(output: Path) -> str:
    """Return the first part of the temporary file name that ``output`` has until it is complete."""
    return f".{output.name}."


def _add_interpreter(archive: tarfile.TarFile, python: str) -> None:
    version = ".".join(map(str, sys.version_info[:3]))
    text = (
        f"home = {PurePosixPath(python).parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    ).encode()
    config = tarfile.TarInfo("pyvenv.cfg")
    config.size = len(text)
    archive.addfile(config, io.BytesIO(text))
    for name in ("python", "python3"):
        link = tarfile.TarInfo(f"bin/{name}")
        link.type, link.linkname = tarfile.SYMTYPE, python
        archive.addfile(link)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Replace the owner, mode and mtime of a file in the archive by values that do not depend on this machine's users.

    The mtime has whole seconds, because old tar formats drop fractions.
    """
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.mode & 0o100 else 0o644
    info.mtime = int(info.mtime)
    # The tar format stores a file with two hard links as a link without content, but the archive needs the content.
    if info.islnk():
        info.type, info.linkname = tarfile.REGTYPE, ""
    return info
