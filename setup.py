"""The parts of the package that depend on the checkout.

A wheel with compiled kernels is for one platform, and does not need numba.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

from setuptools import Distribution, setup

DEPENDENCIES = [
    "cryptography>=43",
    "grpcio",
    "grpcio-health-checking",
    "isal",
    "jinja2",
    "mysql-mimic",
    "numpy",
    "prometheus-client",
    "protobuf",
    "pydantic",
    "pymysql",
    "rich",
    "sqlglot",
    "structlog",
    "typer",
    "zstandard",
]
COMPILER = ["numba", "setuptools>=77"]

HAS_KERNELS = any(Path("dumpfilter").rglob(f"__pycache__/*{sysconfig.get_config_var('EXT_SUFFIX')}"))


class _Distribution(Distribution):
    def has_ext_modules(self) -> bool:
        return HAS_KERNELS


setup(install_requires=DEPENDENCIES + ([] if HAS_KERNELS else COMPILER), distclass=_Distribution)
