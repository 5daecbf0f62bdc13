"""``python tools/house_rules.py [PATH…]``: report the places that break a rule of this project that Ruff cannot check.

CONTRIBUTING.md gives the rules and their reasons. The exit status is 1 when there are findings.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

MOST_LINES = 120
"""The longest function, lines."""

MOST_WORDS = 30
"""The longest sentence of a docstring, words. The style asks for 25; tables and lists of names need a little room."""

OPENING = r"(What|Who|Whom|Whose|Where|Of|Those|The same|That which|How much|Which)\b"
"""Openings that no docstring and no comment has."""

COMMENT = re.compile(rf"(^\s*|  )#[#:! ]*(?i:{OPENING})")

NO_VERB = re.compile(
    r"(\W|(the|an?|one|its?|as|from|for|if|all|any|every|each|both|only|no|not|in|on|at|with|by|to|up|and|or|but|when|how|"
    r"why|whether|these|this|that|there|some|another|several|many|whatever|everything|nothing|more|most|here)\b)",
    re.IGNORECASE,
)
"""First words that are no verb, with which no function's docstring begins."""

NOUN = re.compile(r"property|fixture|composite$|\.setter$")
"""Decorators that make a function a noun: a property, a fixture, a Hypothesis strategy."""

GENERATED = "dumpfilter/v1/"


def findings(path: Path, source: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each finding (broken rule) in a Python file. ``path`` is relative to the
    checkout, and ``source`` is the file's text.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from ((node.lineno, f"{node.name} {text}") for text in _of_function(node))
            case ast.Expr(ast.Constant(str(text))):
                yield from ((node.lineno, found) for found in _of_docstring(text.strip()))
            case ast.ImportFrom(module=str(module)) if not path.parts[0].startswith(("tests", "tools")):
                package = ".".join(("dumpfilter", *path.parts[path.parts[0] == "dumpfilter" : -1]))
                for name in node.names:
                    private = re.match(r"(dumpfilter.*?)\._[a-z]", f"{module}.{name.name}")
                    if private and private[1] != package:
                        yield node.lineno, f"{module}.{name.name} is private to its package"
    for number, (before, line) in enumerate(pairwise(["", *source.splitlines()]), 1):
        if COMMENT.search(line) and not before.lstrip().startswith("#"):
            yield number, f"a comment begins with a pronoun: {line.strip()}"


def _of_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > MOST_LINES:
        yield f"has {lines} lines, more than {MOST_LINES}"
    text = ast.get_docstring(function) or "Test"
    is_noun = any(NOUN.search(ast.unparse(one)) for one in function.decorator_list)
    if NO_VERB.match(text) and not is_noun and not function.name.startswith("test_"):
        yield f"has a docstring that does not begin with a verb: {text[:90]}"


def _of_docstring(text: str) -> Iterator[str]:
    """Yield the texts of the findings (broken rules) in a docstring. Blank lines and list items end a sentence;
    doctests and tables have none.
    """
    if re.match(OPENING, text):
        yield f"a docstring begins with a pronoun: {text[:90]}"
    for paragraph in re.split(r"\n\s*(?=\n|[-*] |\d+\. |>>> )", text):
        if not re.search(r">>> |::|\|", paragraph):
            for sentence in re.split(r"(?<=[.!?:])\s+", re.sub(r"^[-*] ", "", paragraph.strip())):
                if len(sentence.split()) > MOST_WORDS:
                    yield f"a sentence has more than {MOST_WORDS} words: {sentence[:80]} …"


def main() -> int:
    """Check the Python files in the given files and folders, or in the whole checkout, and print the findings. Return
    the exit status, 1 if there are findings.
    """
    # New files count, too. Deleted ones are listed until the deletion is committed.
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"]
    names = subprocess.run(
        [*command, *sys.argv[1:]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    files = [Path(name) for name in names if name.endswith(".py") and not name.startswith(GENERATED)]
    found = [
        f"{file}:{line}: {text}"
        for file in files
        if file.is_file()
        for line, text in findings(file, file.read_text())
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
