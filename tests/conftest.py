"""What tests want told even when they pass: ``record_property("said", text)`` is printed at the end."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("passed", []):
        for name, text in report.user_properties:
            if name == "said":
                terminalreporter.write_line(str(text))
