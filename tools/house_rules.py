"""``python tools/house_rules.py [PATH…]``: report the places that break a rule of this project that Ruff cannot check.

CONTRIBUTING.md gives the rules and their reasons. The exit status is 1 when there are findings.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_LINES = 120
"""The longest function, and the longest module in ``commands/``, lines."""

MOST_PARAMETERS = 12
"""The most parameters of a function."""

MOST_WORDS = 30
"""The longest sentence of a docstring, words. The style asks for 25; tables and lists of names need a little room."""

OPENING = re.compile(r"(What|Who|Whom|Whose|Where|Of|Those|The same|That which|How much|Which)\b")
"""Openings that no docstring and no comment has."""

NO_VERB = frozenset(
    "the a an one it its as from for if all any every each both only no not in on at with by to up and or but when how "
    "why whether these this that there some another several many whatever everything nothing more most here".split()
)
"""First words that are no verb, with which no function's docstring begins."""

PRODUCT = ("dumpfilter", "master", "slave", "spark_jobs")
GENERATED = ("dumpfilter/v1/",)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """One place that breaks a rule."""

    line: int
    text: str


def findings(path: Path) -> Iterator[Finding]:
    """Yield the findings of one Python file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    is_product = path.parts[0] in PRODUCT
    if is_product and "commands" in path.parts and len(source.splitlines()) > MOST_LINES:
        yield Finding(1, f"a command's module has more than {MOST_LINES} lines")
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield from _size_findings(node)
            yield from _verb_findings(node)
        yield from _docstring_findings(node)
        if is_product and isinstance(node, ast.ImportFrom):
            yield from _private_findings(node, path)
    yield from _comment_findings(source)


def _size_findings(function: Function) -> Iterator[Finding]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > MOST_LINES:
        yield Finding(function.lineno, f"{function.name} has {lines} lines, more than {MOST_LINES}")
    arguments = function.args
    count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
    if count > MOST_PARAMETERS:
        yield Finding(function.lineno, f"{function.name} has {count} parameters, more than {MOST_PARAMETERS}")


def _verb_findings(function: Function) -> Iterator[Finding]:
    text = ast.get_docstring(function)
    if not text or function.name.startswith("test_") or any(map(_is_noun_decorator, function.decorator_list)):
        return
    if (first := re.match(r"[A-Za-z']+", text)) and first[0].lower() in NO_VERB:
        yield Finding(
            function.lineno, f"the docstring of {function.name} does not begin with a verb: {_head(text)}"
        )


def _is_noun_decorator(decorator: ast.expr) -> bool:
    """Tell whether the decorator makes the function a noun: a property, a fixture, a command-line command."""
    name = ast.unparse(decorator)
    return (
        "property" in name or "fixture" in name or name.startswith("st.composite") or name.endswith(".setter")
    )


def _docstring_findings(node: ast.AST) -> Iterator[Finding]:
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else []:
        match statement:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                pass
            case _:
                continue
        text = text.strip()
        if OPENING.match(text):
            yield Finding(statement.lineno, f"a docstring begins with a pronoun: {_head(text)}")
        for sentence in _sentences(text):
            if len(sentence.split()) > MOST_WORDS:
                yield Finding(
                    statement.lineno, f"a sentence has more than {MOST_WORDS} words: {sentence[:80]} …"
                )


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring. Blank lines and list items end a sentence; doctests and tables have none."""
    for paragraph in re.split(r"\n\s*(?=\n|[-*] |\d+\. |>>> )", text):
        if ">>> " not in paragraph and "::" not in paragraph and "|" not in paragraph:
            yield from re.split(r"(?<=[.!?:])\s+", re.sub(r"\s+", " ", paragraph.strip()))


def _private_findings(node: ast.ImportFrom, path: Path) -> Iterator[Finding]:
    package = ".".join(("" if path.parts[0] == "dumpfilter" else "dumpfilter.", *path.parts[:-1])).replace(
        "..", "."
    )
    for name in node.names:
        module = f"{node.module}.{name.name}"
        parts = module.split(".")
        private = next((k for k, part in enumerate(parts) if re.match(r"_[a-z]", part)), None)
        if (
            parts[0] == "dumpfilter"
            and private is not None
            and ".".join(parts[:private]) != package.strip(".")
        ):
            yield Finding(node.lineno, f"{module} is private to its package")


def _comment_findings(source: str) -> Iterator[Finding]:
    for number, line in enumerate(source.splitlines(), 1):
        comment = re.search(r"(?:^|\s)#\s+(.*)", line)
        if comment and OPENING.match(comment[1][:1].upper() + comment[1][1:]):
            yield Finding(number, f"a comment begins with a pronoun: {comment[1]}")


def _head(text: str) -> str:
    return text.split("\n")[0][:90]


def main() -> int:
    """Check the given files and folders, or the whole checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="*", default=["."], help="files and folders; without any, the whole checkout"
    )
    paths = parser.parse_args().paths
    listed = subprocess.run(["git", "ls-files", "--", *paths], capture_output=True, text=True, check=True)
    count = 0
    for name in listed.stdout.splitlines():
        if name.endswith(".py") and not name.startswith(GENERATED):
            for finding in findings(Path(name)):
                print(f"{name}:{finding.line}: {finding.text}")
                count += 1
    if count:
        print(f"{count} findings; CONTRIBUTING.md has the rules")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
