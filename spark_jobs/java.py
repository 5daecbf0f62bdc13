"""The search for the Java program that Spark will run, and for this program's version.

This module imports only the standard library, because the Makefile runs it before any package is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

JAVA_AT_LEAST = 17
"""The oldest Java version that Spark 4 supports."""


def find_java() -> str | None:
    """Return the path of the Java program that Spark will run, or None if there is none.

    Like Spark, use ``JAVA_HOME`` if it is set, and otherwise search the PATH.
    """
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")


def java_release(java: str) -> int | None:
    """Return the major version of the Java program ``java`` (17, 21 …). None if the program cannot be run, or if ``java
    -version`` prints no version within a minute.
    """
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, errors="replace", timeout=60, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    # The program prints, for example, openjdk version "17.0.21" … or java version "1.8.0_392" …
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None
