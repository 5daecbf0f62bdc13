"""``python tools/house_rules.py [PATH…]``: report the places that break a rule of this project that Ruff cannot check.

CONTRIBUTING.md gives the rules and their reasons. The exit status is 1 when there are findings.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_LINES = 120
"""The longest function, lines."""

MOST_PARAMETERS = 12
"""The most parameters of a function, without ``self`` and ``cls``."""

MOST_WORDS = 30
"""The longest sentence of a docstring, words. The style asks for 25; tables and lists of names need a little room."""

OPENING = re.compile(r"(What|Who|Whom|Whose|Where|Of|Those|The same|That which|How much|Which)\b")
"""Openings that no docstring and no comment has."""

NO_VERB = frozenset(
    re.findall(
        r"\w+",
        "the a an one it its as from for if all any every each both only no not in on at with by to up and or but when "
        "how why whether these this that there some another several many whatever everything nothing more most here",
    )
)
"""First words that are no verb, with which no function's docstring begins."""

PRAGMA = re.compile(r"(noqa|type:|pragma|fmt:)")
"""The beginning of comments that are for tools."""

PRODUCT = ("dumpfilter", "master", "slave", "spark_jobs")
GENERATED = ("dumpfilter/v1/",)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """One place that breaks a rule."""

    line: int
    text: str


def findings(path: Path, source: str) -> Iterator[Finding]:
    """Yield the findings of a Python file. ``path`` is relative to the checkout."""
    tree = ast.parse(source)
    is_product = path.parts[0] in PRODUCT
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield from _size_findings(node)
            yield from _verb_findings(node)
        yield from _docstring_findings(node)
        if is_product:
            yield from _private_findings(node, path)
    yield from _comment_findings(source)


def _size_findings(function: Function) -> Iterator[Finding]:
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > MOST_LINES:
        yield Finding(function.lineno, f"{function.name} has {lines} lines, more than {MOST_LINES}")
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = len(names) - (names[:1] in (["self"], ["cls"]))
    if count > MOST_PARAMETERS:
        yield Finding(function.lineno, f"{function.name} has {count} parameters, more than {MOST_PARAMETERS}")


def _verb_findings(function: Function) -> Iterator[Finding]:
    text = ast.get_docstring(function)
    if not text or function.name.startswith("test_") or any(map(_is_noun_decorator, function.decorator_list)):
        return
    first = re.match(r"[A-Za-z']+", text)
    if first is None or first[0].lower() in NO_VERB:
        yield Finding(
            function.lineno, f"the docstring of {function.name} does not begin with a verb: {_head(text)}"
        )


def _is_noun_decorator(decorator: ast.expr) -> bool:
    """Tell whether the decorator makes the function a noun: a property, a fixture, a Hypothesis strategy."""
    name = ast.unparse(decorator)
    return "property" in name or "fixture" in name or name.endswith(("composite", ".setter"))


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
            text = re.sub(r"^[-*] ", "", re.sub(r"\s+", " ", paragraph.strip()))
            yield from re.split(r"(?<=[.!?:])\s+", text)


def _private_findings(node: ast.AST, path: Path) -> Iterator[Finding]:
    """Yield the imports of a private module, or of a private name, from another package."""
    if isinstance(node, ast.Import):
        modules = [name.name for name in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = [f"{node.module}.{name.name}" for name in node.names]
    else:
        return
    package = ".".join(path.parts[:-1] if path.parts[0] == "dumpfilter" else ("dumpfilter", *path.parts[:-1]))
    for module in modules:
        parts = module.split(".")
        private = next((k for k, part in enumerate(parts) if re.match(r"_[a-z]", part)), None)
        if parts[0] == "dumpfilter" and private is not None and ".".join(parts[:private]) != package:
            yield Finding(node.lineno, f"{module} is private to its package")


def _comment_findings(source: str) -> Iterator[Finding]:
    """Yield the comments with a forbidden opening. Only the first line of a comment has an opening."""
    before = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        text = token.string.lstrip("#:! ")
        whole_line = token.line.lstrip().startswith("#")
        goes_on = whole_line and before == line - 1
        before = line if whole_line else -1
        if not goes_on and not PRAGMA.match(text) and OPENING.match(text[:1].upper() + text[1:]):
            yield Finding(line, f"a comment begins with a pronoun: {text}")


def _head(text: str) -> str:
    return text.split("\n")[0][:90]


def main() -> int:
    """Check the given files and folders, or the whole checkout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="*", default=["."], help="files and folders; without any, the whole checkout"
    )
    paths = parser.parse_args().paths
    # New files count, too. Deleted ones are listed until the deletion is committed.
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", *paths]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    count = 0
    for name in listed.stdout.splitlines():
        if name.endswith(".py") and not name.startswith(GENERATED) and Path(name).is_file():
            for finding in findings(Path(name), Path(name).read_text(encoding="utf-8")):
                print(f"{name}:{finding.line}: {finding.text}")
                count += 1
    if count:
        print(f"{count} findings; CONTRIBUTING.md has the rules")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
