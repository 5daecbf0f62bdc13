"""The parts of the package that depend on the checkout.

A wheel with compiled kernels is for one platform, and does not need numba.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from setuptools import Distribution, setup

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from dumpfilter.base.compiler.extensions import beside, modules  # noqa: E402 (pip does not import from the checkout)

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
DEPENDENCIES = [
    "cryptography>=43",
    "grpcio",
    "grpcio-health-checking",
    "isal",
    "jinja2",
    "mysql-mimic",
    "numpy",
    "prometheus-client>=0.25",
    "protobuf",
    "pydantic>=2.11",
    "pymysql",
    "rich",
    "sqlglot",
    "structlog",
    "typer",
    "uvloop",
    "zstandard",
]

HAS_KERNELS = all(beside(module).is_file() for module in modules())
"""Whether the wheel brings all kernels, compiled from the checkout's present text."""


class _Distribution(Distribution):
    def has_ext_modules(self) -> bool:
        return HAS_KERNELS


setup(
    install_requires=DEPENDENCIES + ([] if HAS_KERNELS else EXTRAS["compile"]),
    distclass=_Distribution,
)
