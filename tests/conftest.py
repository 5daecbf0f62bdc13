"""What tests want told even when they pass: ``record_property("said", text)`` is printed at the end."""

from __future__ import annotations

import pytest
from hypothesis import settings

# A busy machine is no defect: how long an example takes belongs into the benchmarks.
settings.register_profile("dumpfilter", deadline=None)
settings.load_profile("dumpfilter")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "said":
                terminalreporter.write_line(str(text))
