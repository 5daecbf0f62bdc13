"""The compilation of a module with kernels (compiled functions) into an extension module, by numba's ahead-of-time
compiler ``pycc``.

This module changes numba in its process, so that the process should only compile.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import subprocess
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba.core import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaPendingDeprecationWarning
from numba.np.numpy_support import from_dtype

from dumpfilter.base.compiler import kernels
from dumpfilter.base.compiler.arrays import dtype_and_dimensions, types_of
from dumpfilter.base.compiler.extensions import CPU
from dumpfilter.base.compiler.kernels import EXTENSION

# numba announces that another ahead-of-time compiler will replace pycc some day. constraints.txt has the version.
warnings.filterwarnings("ignore", "The 'pycc' module", NumbaPendingDeprecationWarning)

# numba has no types of its own.
_pycc: Any = importlib.import_module("numba.pycc.compiler")
_typing: Any = importlib.import_module("numba.core.typing")
_types: Any = types

_SCALARS = {int: types.int64, bool: types.boolean}


def prepare() -> None:
    """Change numba's settings in this process. numba then compiles for the type of processor in :data:`CPU`, and
    compiled functions run without the interpreter's lock (GIL).
    """
    kernels.is_compiling = True
    config: Any = numba.config
    config.CPU_NAME, config.CPU_FEATURES = CPU or "generic", ""
    if CPU:
        # Kernels choose between values that cannot be predicted. A mispredicted branch costs more than both values.
        llvmlite.binding.set_option("dumpfilter", "-x86-cmov-converter=false")
    _pycc.Flags = _flags


def _flags(make: Any = _pycc.Flags) -> Any:
    flags = make()
    flags.release_gil = True
    return flags


def compile_support(directory: Path) -> Path:
    """Compile the C functions with which an extension module converts its Python arguments. Return the path of the
    object file in ``directory``. Raises OSError when the C compiler fails.
    """
    source = Path(_pycc.__file__).with_name("modulemixin.c")
    headers = (sysconfig.get_path("include"), np.get_include())
    out = directory / "support.o"
    _cc(
        *("-fPIC", "-O2", "-w", "-c", str(source), "-o", str(out), *(f"-I{one}" for one in headers)),
        *(f"-DPYCC_MODULE_NAME={EXTENSION}", "-DPYCC_USE_NRT=0", "-DNUMBA_LAPACK_BUILD_ILP64=0"),
    )
    return out


def _cc(*arguments: str) -> None:
    """Run the C compiler with ``arguments``. The compiler is the one in the environment variable CC, Python's own, or
    ``cc``. Raises OSError when it fails.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        compiler = ["cc"]
    done = subprocess.run([*compiler, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{compiler[0]} failed: {done.stderr.strip() or f'exit code {done.returncode}'}")


def compile_module(name: str, support: Path, out: Path) -> None:
    """Compile the kernels (numba functions) of the module ``name``, and link them with ``support`` into the extension
    module ``out``. Raises OSError when the linker fails.

    ``support`` is the object file that :func:`compile_support` returned.
    """
    module = importlib.import_module(name)
    entries = []
    for function in _kernels(module):
        signature = _typing.signature(None, *map(_numba_type, types_of(function).values()))
        entries.append(_pycc.ExportEntry(function.__name__, signature, function))
    made = _pycc.ModuleCompiler(entries, EXTENSION, cpu_name=CPU)
    made.external_init_function = f"pycc_init_{EXTENSION}"
    code = f"{out}.o"
    made.write_native_object(code, wrap=True)
    _cc("-shared", "-s", "-pthread", code, str(support), "-o", str(out))
    Path(code).unlink()


def _kernels(module: Any) -> Iterator[Callable[..., Any]]:
    for value in vars(module).values():
        if isinstance(value, Dispatcher) and value.targetoptions.get("nogil"):
            function: Callable[..., Any] = value.py_func
            if function.__module__ == module.__name__:
                yield function


def _numba_type(hint: Any) -> Any:
    if array := dtype_and_dimensions(hint):
        dtype, dimensions = array
        return _types.Array(from_dtype(dtype), dimensions, "C", aligned=not dtype.fields)
    if hasattr(hint, "_fields"):
        return _types.BaseTuple.from_types([*map(_numba_type, types_of(hint).values())], hint)
    return _SCALARS.get(hint) or from_dtype(hint)
