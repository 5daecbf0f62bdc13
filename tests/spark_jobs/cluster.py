"""A real standalone Spark cluster on loopback: a master, and a worker with two cores and two gigabytes.

Both are started from PySpark's own jars and know nothing of this checkout or its virtual environment: no PYTHONPATH,
and a PATH with the system's programs only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for Java programs that run only for seconds."""


def spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@dataclass
class _Daemon:
    process: subprocess.Popen[bytes]
    log: Path


class Cluster:
    """A cluster with its master at the address ``master``. Workers are added on request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._workers: list[_Daemon] = []
        self._master = self._start("master", "master.Master", ["--port", "0"])
        try:
            self.master = _said(self._master, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        except BaseException:
            self.close()
            raise

    def add_worker(self) -> None:
        """Start a worker. The master registers the worker some seconds later."""
        name = f"worker{len(self._workers)}"
        options = ["--cores", "2", "--memory", "2g", "--work-dir", str(self.folder / name), self.master]
        self._workers.append(self._start(name, "worker.Worker", options))

    def submit(
        self, script: Path, *arguments: str, environment: Path, settings: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``script`` by spark-submit. The driver runs this Python, the executors run the packaged environment's
        Python."""
        told = {
            "spark.executor.memory": "512m",
            "spark.pyspark.driver.python": sys.executable,
            "spark.pyspark.python": "./environment/bin/python",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.log.level": "ERROR",
            **(settings or {}),
        }
        command = [str(spark_home() / "bin" / "spark-submit"), "--master", self.master]
        command += ["--archives", f"{environment}#environment"]
        for key, value in told.items():
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
        return sorted(path.parent for path in self.folder.glob("worker*/app-*/*/stderr"))

    def close(self) -> None:
        daemons = [*self._workers, self._master]
        for daemon in daemons:
            daemon.process.terminate()
        for daemon in daemons:
            try:
                daemon.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.process.kill()
                daemon.process.wait()

    def _start(self, name: str, what: str, options: Sequence[str]) -> _Daemon:
        log = self.folder / f"{name}.log"
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._surroundings(),
                cwd=self.folder,
            )
        return _Daemon(process, log)

    def _surroundings(self) -> dict[str, str]:
        java = shutil.which("java")
        known = {
            "PATH": "/usr/local/bin:/usr/bin:/bin" + (f":{Path(java).parent}" if java else ""),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_LAUNCHER_OPTS": QUICK,
        }
        if "JAVA_HOME" in os.environ:
            known["JAVA_HOME"] = os.environ["JAVA_HOME"]
        return known


def _said(daemon: _Daemon, pattern: str) -> str:
    """Wait until the daemon's log matches ``pattern``, and return the pattern's group."""
    while True:
        ended = daemon.process.poll() is not None
        text = daemon.log.read_text("utf-8", "replace")
        found = re.search(pattern, text)
        if found:
            return found[1]
        assert not ended, text
        try:
            daemon.process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            continue
