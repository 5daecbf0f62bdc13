"""``python -m dumpfilter.compile``: compile the numba kernels, each module with kernels into one extension module.

Modules whose extension module matches their source are skipped. Extension modules of earlier sources are deleted. The
compilation takes about half a minute of processor time, on all cores, and needs numba and a C compiler.
:mod:`dumpfilter.base.compiler.kernels` describes how a process finds the extension modules.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import IO

from dumpfilter.base.compiler import extensions


def compile_kernels() -> int:
    """Compile the modules with kernels (numba functions) that have no valid extension module. Return the number of
    these modules.

    If another process compiles at the moment, wait for its end first. Raises ImportError without numba, and OSError if
    the C compiler fails or no directory can be written to.
    """
    with extensions.writable(Path(__file__)).joinpath("compile.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Another process may have compiled them meanwhile.
        missing = [file for file in extensions.modules() if extensions.find(file) is None]
        if missing:
            _compile(missing, lock)
    return len(missing)


def _compile(files: list[Path], lock: IO[str]) -> None:
    from dumpfilter.base.compiler import build

    build.prepare()
    with tempfile.TemporaryDirectory() as directory:
        support = build.compile_support(Path(directory))
        # A worker that outlives a killed process must not keep the lock.
        with concurrent.futures.ProcessPoolExecutor(
            mp_context=multiprocessing.get_context("fork"), initializer=lock.close
        ) as pool:
            made = [pool.submit(_compile_one, file, support) for file in files]
            for number, one in enumerate(concurrent.futures.as_completed(made), 1):
                _say(f"compiled {one.result()} ({number} of {len(files)})")


def _compile_one(file: Path, support: Path) -> str:
    """Compile the kernels (numba functions) of the source ``file``, and delete the extension modules of earlier
    versions of the file. Return the name of the Python module.

    ``support`` is the object file with the C functions that every extension module needs.
    """
    from dumpfilter.base.compiler import build

    name = ".".join(("dumpfilter", *file.relative_to(extensions.PACKAGE).with_suffix("").parts))
    directory = extensions.writable(file)
    # After a killed compilation the file is a stale extension module, which the next compilation deletes.
    beside = directory / f"{file.stem}.{os.getpid()}{extensions.SUFFIX}"
    build.compile_module(name, support, beside)
    beside.replace(directory / extensions.file_name(file))
    for old in directory.iterdir():
        if extensions.is_stale(old, file):
            old.unlink(missing_ok=True)
    return name


def _say(text: str) -> None:
    print(f"dumpfilter: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Compile the modules with kernels (numba functions) that have no valid extension module, and return the exit code.

    The code is 1, with a line on standard error, if numba is missing, the C compiler fails, or a directory cannot be
    written.
    """
    try:
        if not compile_kernels():
            _say("all kernels were compiled before")
    except (ImportError, OSError) as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
