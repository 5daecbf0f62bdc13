"""The house rules: each finds what it forbids, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house_rules import MOST_LINES, MOST_PARAMETERS, MOST_WORDS, findings

MODULE = Path("dumpfilter/index/scanner.py")


def found(source: str, path: Path = MODULE) -> list[str]:
    return [finding.text for finding in findings(path, source)]


def function(docstring: str, *, decorator: str = "", name: str = "f") -> str:
    return f'{decorator}\ndef {name}():\n    """{docstring}"""\n'


def test_long_functions() -> None:
    lines = MOST_LINES - 1
    assert found("def f():\n" + "    1\n" * lines) == []
    assert found("def f():\n" + "    1\n" * (lines + 1)) == [
        f"f has {MOST_LINES + 1} lines, more than {MOST_LINES}"
    ]


def test_long_commands() -> None:
    source = "1\n" * (MOST_LINES + 1)
    assert found(source) == []
    assert found(source, Path("dumpfilter/commands/explain.py")) == [
        f"a command's module has more than {MOST_LINES} lines"
    ]
    assert found(source, Path("tests/commands/test_explain.py")) == []


def test_many_parameters() -> None:
    names = [f"a{n}" for n in range(MOST_PARAMETERS)]
    assert found(f"def f({', '.join(names)}): 1") == []
    assert found(f"class C:\n  def f(self, {', '.join(names)}): 1") == []
    more = f"f has {MOST_PARAMETERS + 1} parameters, more than {MOST_PARAMETERS}"
    assert found(f"def f({', '.join(names)}, b): 1") == [more]
    assert found(f"async def f({', '.join(names)}, *, b): 1") == [more]


@pytest.mark.parametrize(
    "docstring", ["The end of a file.", "A file.", "``end`` of a file.", "whether it ends"]
)
def test_docstrings_without_a_verb(docstring: str) -> None:
    assert found(function(docstring)) == [f"the docstring of f does not begin with a verb: {docstring}"]
    for decorator in (
        "@property",
        "@functools.cached_property",
        "@pytest.fixture(scope='module')",
        "@st.composite",
    ):
        assert found(function(docstring, decorator=decorator)) == []
    assert found(function(docstring, name="test_f")) == []


@pytest.mark.parametrize("opening", ["What", "Who", "Where", "Of", "Those", "The same", "How much", "Which"])
def test_openings(opening: str) -> None:
    assert found(f'"""{opening} of a file."""') == [
        f"a docstring begins with a pronoun: {opening} of a file."
    ]
    assert found(f'class C:\n    a: int\n    """{opening} one."""') == [
        f"a docstring begins with a pronoun: {opening} one."
    ]
    assert found(function(f"{opening} one.", decorator="@property")) == [
        f"a docstring begins with a pronoun: {opening} one."
    ]
    for comment in (f"# {opening} one", f"# {opening.lower()} one", f"a = 1  # {opening} one"):
        assert found(comment) == [f"a comment begins with a pronoun: {comment.partition('# ')[2]}"]


def test_words_that_only_look_like_an_opening() -> None:
    assert (
        found('"""Offsets of a file."""\n# Whole files\n# Offsets\na = "# what"  # noqa: E501 (of old)') == []
    )
    assert found("# The file ends in the middle\n# of an event.") == []
    assert found("a = 1  # The file\nb = 2  # of an event") == [
        "a comment begins with a pronoun: of an event"
    ]


def test_long_sentences() -> None:
    allowed = " ".join(["word"] * MOST_WORDS)
    assert found(f'"""{allowed}."""') == []
    assert found(f'"""{allowed}.\n\n{allowed}. {allowed}: {allowed}.\n- {allowed}\n- {allowed}\n"""') == []
    assert found(f'"""{allowed} more."""') == [
        f"a sentence has more than {MOST_WORDS} words: {allowed[:80]} …"
    ]
    assert found(f'"""A table.\n\n| {allowed} | {allowed} |\n"""') == []


@pytest.mark.parametrize(
    "source",
    [
        "from dumpfilter.dump._decide import decide",
        "from dumpfilter.dump import _decide",
        "import dumpfilter.dump._decide",
        "from dumpfilter.index.columns import _merge",
    ],
)
def test_private_imports(source: str) -> None:
    (text,) = found(source)
    assert text.endswith("is private to its package")
    assert found(source, Path("tests/index/test_scanner.py")) == []


def test_private_imports_in_the_own_package() -> None:
    assert found("from dumpfilter.index._scan import scan\nfrom __future__ import annotations") == []
    assert found("from dumpfilter.master._queue import Queue", Path("master/server.py")) == []
    assert found("from dumpfilter.master._queue import Queue", Path("dumpfilter/master.py")) != []
