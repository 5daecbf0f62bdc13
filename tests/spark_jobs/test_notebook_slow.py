"""The notebook for Spark prints what its stored outputs show."""

from __future__ import annotations

import copy
import json
from typing import Any

from dumpfilter.spark_jobs.binlog_source import PUSHDOWN
from tools.notebooks import NOTEBOOKS, outputs, run


def test_the_notebook_prints_its_stored_outputs(spark: Any) -> None:
    """The notebook gets the running session, and gives the session settings of its own."""
    before = {
        name: spark.conf.get(name)
        for name in (PUSHDOWN, "spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
    }
    *cells, last = json.loads((NOTEBOOKS / "spark.ipynb").read_bytes())["cells"]
    assert last["source"] == ["spark.stop()"]
    stored = copy.deepcopy(cells)
    try:
        run(cells)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert outputs(cells) == outputs(stored)
