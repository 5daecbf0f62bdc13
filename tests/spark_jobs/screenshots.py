"""Screenshots of the report, to be looked at: ``python -m tests.spark_jobs.screenshots DIRECTORY [NAME…]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from dumpfilter.spark_jobs.bandwidth.report import render_report
from dumpfilter.spark_jobs.bandwidth.results import Results
from tests.spark_jobs.browser import chromium
from tests.spark_jobs.made_results import empty_results, made_results

CASES: dict[str, Callable[[], Results]] = {
    "usual": made_results,
    "many": lambda: made_results(slaves=100, tables=1000, hours=400),
    "one": lambda: made_results(slaves=1, tables=1, hours=1 / 60, rules=False, troubles=False),
    "empty": empty_results,
}


def main(directory: Path, names: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for name in names or CASES:
            page_file = directory / f"{name}.html"
            page_file.write_text(render_report(CASES[name]()), encoding="utf-8")
            for scheme in ("light", "dark"):
                for width in (1280, 400):
                    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                    page.goto(page_file.as_uri())
                    page.screenshot(path=directory / f"{name}-{width}-{scheme}.png", full_page=True)
                    page.close()
            page = browser.new_page(color_scheme="dark")
            page.goto(page_file.as_uri())
            page.pdf(path=directory / f"{name}.pdf", format="A4")
            page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
