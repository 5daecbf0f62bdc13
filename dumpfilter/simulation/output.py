"""The output directory of a simulation or an experiment: results.json, the Parquet tables, and the page."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.analyse.report.output import REPORT, RESULTS, written_together
from dumpfilter.analyse.report.parquet import write_tables
from dumpfilter.simulation.results import Results
from dumpfilter.simulation.tables import FORMS, tables


def write_results(results: Results, directory: Path, *, page: bool = True) -> None:
    """Write the results of a simulation as results.json, Parquet tables and report.html into ``directory``: all files
    or none.

    With ``page`` False, report.html is left out.
    """
    with written_together(directory) as beside:
        (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
        if page:
            # Jinja takes long to load.
            from dumpfilter.simulation.page import render_page

            (beside / REPORT).write_text(render_page(results), "utf-8")
        write_tables(FORMS, tables(results), beside)
