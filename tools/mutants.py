"""``python tools/mutants.py COUNT LOG``: change the product in small ways, and see whether the tests notice.

A mutant is the product with one change: another comparison, a negated condition, a number that is one off, a statement
less. The changes are drawn by their texts from the functions of the decision and of the slave. A change of another
function leaves the draw as it is. A survivor needs a test, or its code is superfluous.

Each mutant is judged by a run of pytest in a copy of the checkout. The run has the quick tests of the module's folder
and of the files that import the module, and then the slow files that import the module.

The file LOG keeps the verdicts. A second run judges only the mutants that have no line there.
"""

from __future__ import annotations

import ast
import copy
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
PARTS = ("dump", "filter", "index", "slave")

PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "--timeout=60")
"""The command that judges a mutant. The timeout ends a test that waits forever."""

DEADLINE = 600
"""The time limit of a run of tests, seconds. A mutant with an endless compiled loop reaches the limit."""

_PAIRS = (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn),
    (ast.Add, ast.Sub), (ast.BitAnd, ast.BitOr), (ast.LShift, ast.RShift), (ast.And, ast.Or),
)  # fmt: skip
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    **{one: other for pair in _PAIRS for one, other in (pair, pair[::-1])},
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
}


class Mutant(NamedTuple):
    """One change of one module: the module's tree, one of its nodes, and the node that takes its place."""

    name: str
    module: Path
    tree: ast.Module
    node: ast.AST
    new: ast.AST

    @property
    def source(self) -> str:
        """The changed module."""
        before = self.node.__class__, self.node.__dict__
        self.node.__class__, self.node.__dict__ = type(self.new), self.new.__dict__
        try:
            return ast.unparse(ast.fix_missing_locations(self.tree))
        finally:
            self.node.__class__, self.node.__dict__ = before


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the changed copies of a node that has some."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in OPERATORS:
            yield _with(node, ops=[OPERATORS[type(operator)]()])
        case ast.BinOp(right=ast.Constant(None)):
            return  # the annotation of a nested function
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in OPERATORS:
            yield _with(node, op=OPERATORS[type(operator)]())
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
    vars(changed).update(fields)
    return changed


def mutants() -> Iterator[Mutant]:
    """Yield all mutants. Annotations, default arguments and what stands outside of functions have none."""
    seen: Counter[str] = Counter()
    for module in (path for part in PARTS for path in (ROOT / "dumpfilter" / part).rglob("*.py")):
        tree = ast.parse(module.read_text("utf-8"))
        functions = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        nodes = {node: each.name for each in functions for one in each.body for node in ast.walk(one)}
        for node, function in nodes.items():
            for new in changes(node):
                name = f"{module.relative_to(ROOT)} {function}: {_first_line(node)} -> {_first_line(new)}"
                seen[name] += 1
                yield Mutant(f"{name} ({seen[name]})", module.relative_to(ROOT), tree, node, new)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).partition("\n")[0]


def judged(mutant: Mutant, checkout: Path) -> str:
    """Return the first test that fails with a mutant, ``deadline`` for a run without an end, or an empty text."""
    *package, stem = mutant.module.with_suffix("").parts
    dotted = re.escape(".".join(package))
    imports = re.compile(rf"{dotted}\.{stem}\b|from {dotted} import [^\n]*\b{stem}\b")
    near = [str(path) for path in ROOT.glob("tests/**/test_*.py") if imports.search(path.read_text("utf-8"))]
    near = [os.path.relpath(path, ROOT) for path in near]
    slow = [path for path in near if path.endswith("_slow.py")]
    path = checkout / mutant.module
    path.write_text(mutant.source, "utf-8")
    try:
        quick = _failure(checkout, "--quick", f"tests/{package[1]}", *(set(near) - set(slow)))
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


def main(count: int, log: Path) -> None:
    """Judge the first ``count`` mutants of the draw, append the verdicts to ``log``, and print their numbers."""
    log.touch()
    verdicts = dict(line.split("\t")[1::-1] for line in log.read_text("utf-8").splitlines())
    drawn = sorted(mutants(), key=lambda one: hashlib.sha256(one.name.encode()).digest())[:count]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        checkout = Path(directory, "checkout")
        shutil.copytree(
            ROOT,
            checkout,
            symlinks=True,
            ignore=shutil.ignore_patterns(".venv", ".git", "out", ".hypothesis"),
        )
        os.environ |= {"PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
        for mutant in drawn:
            if mutant.name not in verdicts:
                by = judged(mutant, checkout)
                verdicts[mutant.name] = "killed" if by else "SURVIVES"
                with log.open("a", encoding="utf-8") as file:
                    print(verdicts[mutant.name], mutant.name, by, sep="\t", file=file)
    print(Counter(verdicts[one.name] for one in drawn))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
