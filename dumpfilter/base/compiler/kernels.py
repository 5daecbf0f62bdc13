"""The decorators of all compiled functions (kernels), and the extension modules that hold their machine code.

Kernels are written in the part of Python that numba compiles. ``python -m dumpfilter.compile`` compiles them ahead of
time, each module with kernels into one extension module, which needs numba and a C compiler. ``make wheel`` puts the
extension modules into the wheel. A process that uses kernels loads only their extension modules, not numba, which costs
0.5 s of processor time and 80 MB less.

The first process that finds no valid extension module (:mod:`dumpfilter.base.compiler.extensions`) runs
``python -m dumpfilter.compile``.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from dumpfilter.base.compiler import notice
from dumpfilter.base.compiler.extensions import PACKAGE, find
from dumpfilter.base.errors import KernelsMissing

EXTENSION = "kernels"
"""The name that each extension module (``.so`` with compiled functions) has inside. Python calls the initialization
function ``PyInit_kernels``.
"""


is_compiling = False
"""Whether this process compiles kernels (Python functions that numba compiles to machine code). If so, the decorators
of this module return numba's functions. This holds only for modules that are imported after the variable is set.
"""


def kernel(function: Callable[..., Any]) -> Any:
    """Return the compiled form of a kernel (a Python function that numba compiles to machine code), for callers in
    Python. Used as a decorator.

    The annotations give the types: ``int`` is int64, arrays are those of :mod:`dumpfilter.base.compiler.arrays`, and a
    ``NamedTuple`` may combine them. The function must neither create nor store arrays. The compiled function runs
    without the interpreter's lock (GIL). The caller must pass arrays of these types, contiguous in C order. The
    compiled code checks only the number of dimensions and the size of an entry. Raises KernelsMissing if there is no
    compiled code and it cannot be made.
    """
    if is_compiling:
        return _numba_function(function, nogil=True)
    module = sys.modules[function.__module__]
    return getattr(_extension(module.__name__, Path(str(module.__file__))), function.__name__)


def inner(function: Callable[..., Any]) -> Any:
    """Mark a function that only kernels (compiled functions) call, so that numba compiles the function with them. Used
    as a decorator. Outside a compilation the function is returned unchanged.
    """
    return _numba_function(function) if is_compiling else function


def inlined(function: Callable[..., Any]) -> Any:
    """Mark a small function that only kernels (compiled functions) call. numba inserts its code into each caller.
    Outside a compilation the function is returned unchanged.
    """
    return _numba_function(function, inline="always") if is_compiling else function


def _numba_function(function: Callable[..., Any], **options: Any) -> Any:
    import numba

    # The option _nrt is private to numba. Without numba's reference counts of arrays, the decision of a dump takes 15
    # to 30 % less time, and the extension modules need no part of numba.
    njit: Any = numba.njit  # noqa: TID251 (the one place)
    return njit(_nrt=False, **options)(function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Mark a function that generates LLVM instructions, as numba's ``intrinsic`` does. Outside a compilation the
    function is returned unchanged.
    """
    if not is_compiling:
        return function
    from numba.extending import intrinsic

    return intrinsic(function)


@functools.cache
def _extension(name: str, file: Path) -> ModuleType:
    """Load the extension module (``.so``) with the kernels (compiled functions) of the module ``name``, and return it.
    If the extension module does not exist, first compile the kernels of all modules.

    ``file`` is the module's source file. Raises KernelsMissing when the kernels cannot be compiled.
    """
    path = find(file)
    if path is None:
        notice.tell()
        _compile()
        path = find(file)
        if path is None:
            raise KernelsMissing(f"{file}: no compiled kernels were found after compiling. {_CURE}")
    loader = ExtensionFileLoader(f"{name}.{EXTENSION}", str(path))
    loaded = module_from_spec(ModuleSpec(loader.name, loader, origin=str(path)))
    loader.exec_module(loaded)
    return loaded


_CURE = (
    "Install a wheel that brings them (make wheel), or compile them: "
    "apt-get install gcc python3-dev; pip install numba setuptools; python -m dumpfilter.compile"
)


def _compile() -> None:
    """Compile the kernels (numba functions) of all modules, in another process, which alone imports numba. Raises
    KernelsMissing if the compilation fails.
    """
    path = os.pathsep.join((str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "dumpfilter.compile"],
        env=os.environ | {"PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it told no reason"])[-1].removeprefix("dumpfilter: ")
        raise KernelsMissing(f"the kernels could not be compiled for this machine: {reason}. {_CURE}")
