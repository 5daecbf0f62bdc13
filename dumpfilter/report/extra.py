"""The check that the library of reports is installed. It belongs to the extra ``report``."""

from __future__ import annotations

import importlib.util

from dumpfilter.errors import ExtraMissing

_MODULES = ("jinja2",)


def check_report_extra() -> None:
    """Check that a report can be made. Raises ExtraMissing, which names the missing library and the extra."""
    for module in _MODULES:
        if importlib.util.find_spec(module) is None:
            raise ExtraMissing(
                f"the report needs {module}, which is not installed: pip install 'dumpfilter[report]', or leave the "
                "report out"
            )
