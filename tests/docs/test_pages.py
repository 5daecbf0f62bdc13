"""The pages of ``docs`` are true: links lead somewhere, files that pages name exist, examples run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import dumpfilter
from tests.docs.tutorial import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] + [
    page for page in (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md") if page.exists()
]
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_PATH = re.compile(
    r"`((?:dumpfilter|master|slave|spark_jobs|tests|tools|docs|bench|fuzz|proto)/[\w./-]*\w/?)`"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in _LINK.findall(page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in _anchors(there.read_text()), f"{page.name} links to {target}#{anchor}"


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # it names files that are gone
    missing = [path for path in _PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert not missing


def test_every_page_is_reached_from_the_readme() -> None:
    found, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in found and page.suffix == ".md":
            found.add(page)
            waiting += [
                (page.parent / target).resolve() for target, _ in _LINK.findall(page.read_text()) if target
            ]
    assert set(PAGES) <= found


def test_the_examples_of_the_api_run() -> None:
    # the fence after an output would be taken for a part of it
    text = (ROOT / "docs" / "api.md").read_text().replace("```python\n", "").replace("\n```", "\n")
    examples = doctest.DocTestParser().get_doctest(text, {}, "api.md", "docs/api.md", 0)
    failed, tried = doctest.DocTestRunner().run(examples)
    assert tried > 20
    assert not failed


def test_the_api_page_shows_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert [name for name in dumpfilter.__all__ if name not in page] == []
    assert set(dumpfilter.__all__) == set(dumpfilter._MODULES)
    assert all(getattr(dumpfilter, name) is not None for name in dumpfilter.__all__)


_CHANGE = re.compile(
    r"CHANGE (?:REPLICATION SOURCE|MASTER) TO ((?:[^;`\"']|'[^']*')*_HOST\b(?:[^;`\"']|'[^']*')*)"
)
_LASTING = {"SOURCE_": ("SOURCE_CONNECT_RETRY", "SOURCE_RETRY_COUNT"), "MASTER_": ("MASTER_CONNECT_RETRY",)}
"""The clauses without which a replica gives up soon. MariaDB has an option of the server for the number of attempts."""


def statements_that_connect(text: str) -> list[tuple[str, list[str]]]:
    """Return each statement that names a source, with the clauses that it lacks."""
    found = []
    for match in _CHANGE.finditer(text):
        prefix = "SOURCE_" if "SOURCE_HOST" in match[1] else "MASTER_"
        found.append((match[0], [clause for clause in _LASTING[prefix] if clause not in match[1]]))
    return found


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((ROOT / "examples").rglob("*.md"))],
    ids=lambda page: f"{page.parent.name}/{page.name}",
)
def test_replicas_go_on_after_a_pause_of_their_source(page: Path) -> None:
    lacking = {
        statement: clauses for statement, clauses in statements_that_connect(page.read_text()) if clauses
    }
    assert not lacking


def test_statements_that_connect_are_found() -> None:
    assert len(statements_that_connect((ROOT / "README.md").read_text())) == 2
    assert len(statements_that_connect((ROOT / "docs" / "real-servers.md").read_text())) == 4
    text = (
        "`CHANGE MASTER TO MASTER_HOST='a', MASTER_PORT=1; START SLAVE` CHANGE REPLICATION FILTER x; CHANGE\n"
    )
    assert [clauses for _, clauses in statements_that_connect(text)] == [["MASTER_CONNECT_RETRY"]]
    assert statements_that_connect("`CHANGE MASTER TO MASTER_USE_GTID=slave_pos`") == []
