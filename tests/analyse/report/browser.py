"""Headless Chromium (Debian's) or Chrome, without a network, for tests of the report."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_QUIET = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
_QUIET += ["--disable-sync", "--disable-default-apps", "--proxy-server=127.0.0.1:9"]
# Let the pages of a context share a process.
_QUIET += ["--process-per-site", "--renderer-process-limit=1"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser. Raises AssertionError when Chromium is not installed."""
    # Every worker collects the tests of pages, and one runs them.
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("google-chrome")
    assert found, "no browser: Debian's package chromium is missing (make packages)"
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, headless=True, args=_QUIET + root)
        try:
            yield browser
        finally:
            browser.close()
