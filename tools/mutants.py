"""``python tools/mutants.py COUNT``: change the product in small ways, and see whether the tests notice.

A mutant is the product with one change: another comparison, a negated condition, a number that is one off, a statement
less. The changes are drawn by a seed from the functions of the decision and of the slave. A change of another function
leaves the draw as it is. A survivor needs a test, or its code is superfluous.

Each mutant is judged by a run of pytest in a copy of the checkout. The run has the quick tests of the module's folder
and of the files that import the module, and then the slow files that import the module.

The log keeps the verdicts. A second run judges only the mutants that have no line there.

    $ python tools/mutants.py 300 --seed 1 --log out/mutants.log
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("dumpfilter/dump", "dumpfilter/filter", "dumpfilter/index", "dumpfilter/slave")

PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "--timeout=60")
"""The command that judges a mutant. The timeout ends a test that waits forever."""

DEADLINE = 600
"""The time limit of a run of tests, seconds. A mutant with an endless compiled loop reaches the limit."""

EQUIVALENT = {
    "dumpfilter/index/scanner.py FileScanner._read_tagged_gtid: start + int(events.size[event]) - "
    "self.format_description.checksum_length -> start + int(events.size[event]) + "
    "self.format_description.checksum_length (1)": "the event's message names its own size",
    "dumpfilter/dump/payload.py _forms: len(events) <= _MOST_AT_BEST -> len(events) < _MOST_AT_BEST (1)": "a limit of "
    "effort; the body is valid with each level",
}
"""Mutants that behave as the product, with the reasons."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change of one module: the number of the node in the order of ``ast.walk``, and the number of its change."""

    module: str
    function: str
    node: int
    change: int
    name: str
    line: int

    def tree(self) -> ast.Module:
        """Return the changed module, with the line numbers of the product."""
        tree = ast.parse(_text(self.module))
        node = list(ast.walk(tree))[self.node]
        new = list(changes(node))[self.change]
        node.__class__ = type(new)
        node.__dict__.update(new.__dict__)
        return ast.fix_missing_locations(tree)


@functools.cache
def _text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the changed copies of a node that has some."""
    match node:
        case ast.Compare(ops=[operation]) if type(operation) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(operation)]()])
        case ast.BinOp(right=ast.Constant(None)):
            return  # the annotation of a nested function
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield _with(node, op=OPERATORS[type(operator)]())
        case ast.BoolOp(op=both):
            yield _with(node, op=ast.Or() if isinstance(both, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.If(test=test) | ast.While(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(number)):
            yield _with(node, value=number + 1)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in ("None", "False"):
            yield _with(node, value=ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def drawn(count: int, seed: int) -> list[Mutant]:
    """Return mutants in an order of chance, which depends on the seed and on each mutant's own text only."""
    every = [one for part in PARTS for module in _modules(part) for one in mutants_of(module)]
    return sorted(every, key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())[:count]


@functools.cache
def _modules(part: str) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in (ROOT / part).rglob("*.py")]


def importers(module: str) -> set[str]:
    """Return the test files that import a module of the product."""
    dotted = ".".join(Path(module).with_suffix("").parts)
    package, _, stem = dotted.rpartition(".")
    says = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    return {path for path in _modules("tests") if says.search(_text(path)) and "/test_" in path}


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield every mutant of a module. Annotations, default arguments and what stands outside of functions have none."""
    tree = ast.parse(_text(module))
    functions = dict(_functions(tree, ""))
    seen: Counter[str] = Counter()
    for number, node in enumerate(ast.walk(tree)):
        if id(node) not in functions:
            continue
        function = functions[id(node)]
        for change, new in enumerate(changes(node)):
            name = f"{module} {function}: {_first_line(node)} -> {_first_line(new)}"
            seen[name] += 1
            line = node.lineno if isinstance(node, ast.expr | ast.stmt) else 0
            yield Mutant(module, function, number, change, f"{name} ({seen[name]})", line)


def _functions(node: ast.AST, outer: str) -> Iterator[tuple[int, str]]:
    """Yield each node inside of functions, with the innermost function's name as in ``__qualname__``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{outer}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for inside in (one for statement in child.body for one in ast.walk(statement)):
                yield id(inside), outer + child.name
            yield from _functions(child, f"{outer}{child.name}.<locals>.")
        else:
            yield from _functions(child, outer)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).partition("\n")[0]


def judged(mutant: Mutant, checkout: Path) -> str:
    """Return the first test that fails with a mutant, ``deadline`` for a run without an end, or an empty text."""
    near = importers(mutant.module)
    slow = sorted(path for path in near if path.endswith("_slow.py"))
    folder = f"tests/{mutant.module.split('/')[1]}"
    path = checkout / mutant.module
    path.write_text(ast.unparse(mutant.tree()), "utf-8")
    try:
        quick = _failure(checkout, "--quick", folder, *sorted(near - set(slow)))
        return quick or (_failure(checkout, *slow) if slow else "")
    finally:
        shutil.copy2(ROOT / mutant.module, path)


def _failure(checkout: Path, *arguments: str) -> str:
    """Run tests in the checkout. Return the first failing one, or an empty text."""
    run = subprocess.Popen(
        [*PYTEST, *arguments], cwd=checkout, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        said, _ = run.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        # Servers that the tests have started end, too.
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        return "deadline"
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
    return failed[0] if failed else "" if run.returncode == 0 else f"exit code {run.returncode}"


def main() -> None:
    """Judge mutants, and print how many were killed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, required=True, help="the file of verdicts")
    given = parser.parse_args()
    given.log.touch()
    lines = [line.split("\t") for line in given.log.read_text("utf-8").splitlines()]
    verdicts = {name: verdict for verdict, name, *_ in lines}
    mutants = [one for one in drawn(given.count, given.seed) if one.name not in EQUIVALENT]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as directory,
        given.log.open("a", encoding="utf-8") as log,
    ):
        checkout = Path(directory, "checkout")
        left_out = shutil.ignore_patterns(".venv", ".git", "out", ".hypothesis")
        shutil.copytree(ROOT, checkout, symlinks=True, ignore=left_out)
        os.environ["PYTHONPATH"] = str(checkout)
        for mutant in mutants:
            if mutant.name not in verdicts:
                by = judged(mutant, checkout)
                verdicts[mutant.name] = "killed" if by else "SURVIVES"
                print(
                    verdicts[mutant.name],
                    mutant.name,
                    f"line {mutant.line}",
                    by,
                    sep="\t",
                    file=log,
                    flush=True,
                )
    print(dict(Counter(verdicts[one.name] for one in mutants)))


if __name__ == "__main__":
    main()
