from __future__ import annotations

from pathlib import Path

from tests.docs.tutorial import PAGE, run_page


def test_the_tutorial_shows_what_its_commands_print(tmp_path: Path) -> None:
    text = PAGE.read_text()
    assert run_page(text, tmp_path) == text, "run: python -m tests.docs.tutorial"
