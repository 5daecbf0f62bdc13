"""``python tools/mutants.py COUNT``: change the product in small ways, and see whether the tests notice.

A mutant is a copy of the checkout with one change: another comparison, a negated condition, a number that is one off, a
statement less. The changes are drawn by a seed from the modules of the decision and of the slave. Tests of the
module run first, then those of its package, then the recordings and the slow ones. A mutant that no test kills is
printed with its line. Some survivors are equal to the original, such as a cache of another size. A run takes hours.

    $ python tools/mutants.py 300 --seed 1 --jobs 2 dumpfilter/dump dumpfilter/filter dumpfilter/index slave
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PARTS = ("dumpfilter/dump", "dumpfilter/filter", "dumpfilter/index", "slave")
TIMEOUT = 60
"""The longest time of one test, seconds. A mutant that hangs is killed by it."""

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
    node: int
    change: int


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the changed copies of a node that has some."""
    match node:
        case ast.Compare(ops=[operation]) if type(operation) in COMPARISONS:
            yield _with(node, ops=[COMPARISONS[type(operation)]()])
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
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
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


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the new node in place of the old one."""
        return self._new if node is self._old else self.generic_visit(node)


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield every mutant of a module. Annotations, default arguments and what stands outside of functions have none."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    inside = {
        id(one) for f in ast.walk(tree) if isinstance(f, _FUNCTION) for s in f.body for one in ast.walk(s)
    }
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in inside:
            yield from (Mutant(module, number, change) for change, _ in enumerate(changes(node)))


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def mutated(mutant: Mutant) -> tuple[str, int, str]:
    """Return the module's new text, the line of the change, and the changed code."""
    tree = ast.parse((ROOT / mutant.module).read_text("utf-8"))
    node = list(ast.walk(tree))[mutant.node]
    new = list(changes(node))[mutant.change]
    before = ast.unparse(node).partition("\n")[0]
    line = node.lineno if isinstance(node, ast.expr | ast.stmt) else 0
    after = ast.unparse(ast.fix_missing_locations(new)).partition("\n")[0]
    return (
        ast.unparse(ast.fix_missing_locations(_Replace(node, new).visit(tree))),
        line,
        f"{before} -> {after}",
    )


def stages(module: str) -> Iterator[list[str]]:
    """Yield the tests that may kill a mutant of a module: the closest first."""
    name = module.removesuffix(".py").replace("/", ".")
    dotted = name if name.startswith("dumpfilter.") else f"dumpfilter.{name}"
    package, _, stem = dotted.rpartition(".")
    found = [path for path in (ROOT / "tests").rglob("test_*.py") if _imports(path, dotted, package, stem)]
    near = [str(path.relative_to(ROOT)) for path in found]
    yield [one for one in near if not one.endswith("_slow.py")] + [module]
    room = "/".join(module.removeprefix("dumpfilter/").split("/")[:1])
    yield ["--quick", f"tests/{room}", "tests/oracle"]
    yield [f"tests/{room}", *(one for one in near if one.endswith("_slow.py"))]
    yield ["--quick", "tests/master", "tests/slave", "tests/analyse", "tests/dump"]


def _imports(path: Path, dotted: str, package: str, stem: str) -> bool:
    text = path.read_text("utf-8")
    return f"{dotted} import" in text or f"import {dotted}" in text or f"from {package} import {stem}" in text


def survives(mutant: Mutant, copy_of_checkout: Path) -> bool:
    """Run the stages in a copy of the checkout; return whether all tests pass."""
    path = copy_of_checkout / mutant.module
    original = path.read_text("utf-8")
    path.write_text(mutated(mutant)[0], "utf-8")
    try:
        for tests in stages(mutant.module):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", f"--timeout={TIMEOUT}", *tests]
            run = subprocess.run(
                command, cwd=copy_of_checkout, capture_output=True, env=_environment(copy_of_checkout)
            )
            if run.returncode not in (0, 5):
                return False
        return True
    finally:
        path.write_text(original, "utf-8")


def _environment(directory: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(directory), "TMPDIR": str(directory.parent)}


def main() -> int:
    """Print each mutant's fate and the share that was killed; return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many mutants are tested side by side")
    parser.add_argument("parts", nargs="*", default=PARTS, help="directories of the product")
    given = parser.parse_args()
    modules = [path for part in given.parts for path in sorted((ROOT / part).rglob("*.py"))]
    every = [one for path in modules for one in mutants_of(str(path.relative_to(ROOT)))]
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    print(f"{len(drawn)} of {len(every)} mutants, seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copies: Queue[Path] = Queue()
        for job in range(given.jobs):
            there = Path(directory, str(job), "checkout")
            shutil.copytree(
                ROOT,
                there,
                symlinks=True,
                ignore=shutil.ignore_patterns(".venv", ".git", "out", ".hypothesis"),
            )
            copies.put(there)

        def judge(mutant: Mutant) -> bool:
            there = copies.get()
            try:
                alive = survives(mutant, there)
            finally:
                copies.put(there)
            _, line, change = mutated(mutant)
            print(f"{'SURVIVES' if alive else 'killed':8} {mutant.module}:{line}: {change}", flush=True)
            return alive

        with ThreadPoolExecutor(given.jobs) as pool:
            alive = sum(pool.map(judge, drawn))
    print(f"{len(drawn) - alive} of {len(drawn)} killed ({(len(drawn) - alive) / max(1, len(drawn)):.1%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
