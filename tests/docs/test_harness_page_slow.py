"""The suite made of the files and tests of ``docs/harness.md`` passes."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.tutorial import ROOT
from tests.harness.running import run_pytest

PAGE = ROOT / "docs" / "harness.md"
_BLOCK = re.compile(r"^```(?:python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w.]+)\n")
TESTS = "test_shop.py"
"""The file that the tests on the page without a file of their own belong to."""


def write_suite(directory: Path) -> int:
    """Write the page's files, and return the number of their tests."""
    texts: dict[str, str] = {}
    for block in _BLOCK.findall(PAGE.read_text()):
        named = _FILE.match(block)
        if named:
            texts[named[1]] = block
        elif block.startswith("def test_"):
            texts[TESTS] += "\n\n" + block
    for name, text in texts.items():
        (directory / name).write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\n")
    return sum(text.count("def test_") for text in texts.values())


def test_the_suite_of_the_page_passes(tmp_path: Path) -> None:
    number = write_suite(tmp_path)
    assert number >= 6
    done = run_pytest(tmp_path)
    assert list(done.outcomes.values()) == ["PASSED"] * number, done.text
    assert done.left == []
