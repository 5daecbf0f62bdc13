"""A Spark cluster on loopback whose executor, of two cores and half a gigabyte, is a process of its own.

Spark's ``local-cluster`` runs the daemons of a standalone cluster inside the driver's JVM, which saves two JVMs. All
processes are started from PySpark's own jars and know nothing of this checkout or its virtual environment: no
PYTHONPATH, and a PATH with the system's programs only.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Options for Java programs that run only for seconds."""

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.pyspark.driver.python": sys.executable,
    "spark.pyspark.python": "./environment/bin/python",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
}


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


class Cluster:
    """A cluster whose files are in ``folder``. It runs as long as its one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._home = folder / "spark"
        # The executors' directories are in Spark's home.
        self._home.mkdir()
        for part in spark_home().iterdir():
            (self._home / part.name).symlink_to(part)

    def submit(self, script: Path, *arguments: str, environment: Path) -> subprocess.CompletedProcess[str]:
        """Run ``script`` by spark-submit. The driver runs this Python, the executor runs the packaged environment's
        Python."""
        command = [str(self._home / "bin" / "spark-submit"), "--master", "local-cluster[1,2,1024]"]
        command += ["--archives", f"{environment}#environment"]
        for key, value in SETTINGS.items():
            command += ["--conf", f"{key}={value}"]
        return subprocess.run(
            [*command, str(script), *arguments],
            env=self._surroundings(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def executors(self) -> list[Path]:
        """Return the working directories of executors."""
        return sorted(path.parent for path in self._home.glob("work/app-*/*/stderr"))

    def _surroundings(self) -> dict[str, str]:
        java = shutil.which("java")
        known = {
            "PATH": "/usr/local/bin:/usr/bin:/bin" + (f":{Path(java).parent}" if java else ""),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LAUNCHER_OPTS": QUICK,
        }
        if "JAVA_HOME" in os.environ:
            known["JAVA_HOME"] = os.environ["JAVA_HOME"]
        return known
