"""``python tools/mutants.py COUNT``: change the product in small ways, and see whether the tests notice.

A mutant is the product with one change: another comparison, a negated condition, a number that is one off, a statement
less. The changes are drawn by a seed from the functions of the decision and of the slave. A change of another function
leaves the draw as it is. Survivors are printed with their line. A survivor needs a test, or its code is superfluous.

The first run notes which quick tests enter which functions. A mutant is judged by the tests that enter its function,
the shortest first, and then by the files that import its module, slow ones too. The log keeps the verdicts: a second
run judges only the mutants that are new or that survived. A run takes hours.

    $ python tools/mutants.py 300 --seed 1 --log out/mutants.log
    $ python tools/mutants.py 300 --seed 1 --log out/mutants.log --quick    # without the slow files
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("dumpfilter/dump", "dumpfilter/filter", "dumpfilter/index", "slave")
ROOMS = ("dump", "filter", "index", "slave", "edge", "receiver", "oracle", "master", "analyse")
"""The folders of the tests that may kill a mutant."""

TIMEOUT = 60
"""The longest time of one test, seconds. A mutant that waits forever is killed by it."""

STAGE = 60
"""The longest time of the tests of a stage in the run that noted them, seconds. The shortest tests are taken."""

CPU_LIMIT = 3 * STAGE
"""The longest processor time of a stage, seconds. A mutant with an endless compiled loop is killed by it."""

LIBRARIES = ("hypothesis", "numba", "numpy", "pydantic", "sqlglot")
"""Modules that the tool imports once for all runs of tests."""

EQUIVALENT: dict[str, str] = {}
"""Mutants that behave as the product, with the reasons."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add,
}  # fmt: skip

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    """One change of one module: the number of the node in the order of ``ast.walk``, and the number of its change."""

    module: str
    function: str
    node: int
    change: int
    name: str
    line: int


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
        elif isinstance(child, _Function):
            for inside in (one for statement in child.body for one in ast.walk(statement)):
                yield id(inside), outer + child.name
            yield from _functions(child, f"{outer}{child.name}.<locals>.")
        else:
            yield from _functions(child, outer)


def _first_line(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).partition("\n")[0]


def mutated(mutant: Mutant) -> str:
    """Return the module's new text."""
    tree = ast.parse((ROOT / mutant.module).read_text("utf-8"))
    node = list(ast.walk(tree))[mutant.node]
    new = list(changes(node))[mutant.change]
    return ast.unparse(ast.fix_missing_locations(_Replace(node, new).visit(tree)))


def drawn(parts: list[str], count: int, seed: int) -> list[Mutant]:
    """Return mutants in an order of chance, which depends on the seed and on each mutant's own text only."""
    modules = [str(path.relative_to(ROOT)) for part in parts for path in (ROOT / part).rglob("*.py")]
    every = [one for module in modules for one in mutants_of(module)]
    return sorted(every, key=lambda one: hashlib.sha256(f"{seed} {one.name}".encode()).digest())[:count]


class Entered:
    """A plugin of pytest that notes for each passing test its time and the functions of the product that it enters."""

    def __init__(self, checkout: Path, file: Path) -> None:
        self._checkout = checkout
        self._file = file
        self._seen: dict[int, CodeType] = {}
        self._names: dict[int, str] = {}
        self._shared: defaultdict[str, set[str]] = defaultdict(set)
        self._tests: dict[str, tuple[float, set[str]]] = {}

    def pytest_sessionstart(self) -> None:
        """Begin to trace the calls of all threads."""
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def _trace(self, frame: FrameType, _event: str, _value: object) -> None:
        self._seen[id(frame.f_code)] = frame.f_code

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the functions that one part of a test has entered. A fixture counts for each test of its file."""
        seen, self._seen = self._seen, {}
        entered = set(filter(None, map(self._name, list(seen.values()))))
        if report.when == "setup":
            self._shared[report.nodeid.partition("::")[0]] |= entered
        elif report.when == "call" and report.passed:
            self._tests[report.nodeid] = report.duration, entered

    def _name(self, code: CodeType) -> str:
        """Return a function's module and name, or an empty text for one that has no mutants."""
        if id(code) not in self._names:
            module = os.path.relpath(os.path.realpath(code.co_filename), self._checkout)
            self._names[id(code)] = f"{module} {code.co_qualname}" if module.startswith(PARTS) else ""
        return self._names[id(code)]

    def pytest_sessionfinish(self) -> None:
        """Write the tests of each function, the shortest first."""
        sys.settrace(None)
        threading.settrace(None)
        found: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for test, (seconds, entered) in sorted(self._tests.items(), key=lambda one: one[1][0]):
            for name in entered | self._shared[test.partition("::")[0]]:
                found[name][test] = round(seconds, 3)
        self._file.write_text(json.dumps(found), "utf-8")


class Checkout:
    """A copy of the checkout in which mutants are judged, one at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "checkout"
        self._output = directory / "output"
        left_out = shutil.ignore_patterns(".venv", ".git", "out", ".hypothesis", "*.pyc")
        shutil.copytree(ROOT, self.directory, symlinks=True, ignore=left_out)

    def failing_test(self, arguments: list[str], *plugins: object, limit: int = CPU_LIMIT) -> str:
        """Run pytest in a child of this process; return the first failing test, or an empty text."""
        child = os.fork()
        if not child:
            self._test(arguments, plugins, limit)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # servers that a killed test has left
        code = os.waitstatus_to_exitcode(status)
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return ""
        said = self._output.read_text("utf-8", "replace")
        return "".join(re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)[:1]) or f"exit code {code}"

    def _test(self, arguments: list[str], plugins: Iterable[object], limit: int) -> None:
        code: int = pytest.ExitCode.INTERNAL_ERROR
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            output = os.open(self._output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            os.chdir(self.directory)
            os.environ["PYTHONPATH"] = sys.path[0] = str(self.directory)
            sys.dont_write_bytecode = False
            options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", f"--timeout={TIMEOUT}"]
            code = pytest.main([*options, *arguments], plugins=list(plugins))
        finally:
            os._exit(code)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Replace the mutant's module for the duration of the context, and forget the code compiled from it.

        Cached kernels are valid for the texts that they come from, so a mutant is judged with its own kernels.
        """
        path = self.directory / mutant.module
        original = path.read_text("utf-8")
        kernels = set(self._kernels())
        try:
            path.write_text(mutated(mutant), "utf-8")
            _forget_bytecode(path)
            yield
        finally:
            path.write_text(original, "utf-8")
            _forget_bytecode(path)
            if "base.compiler" in original:
                for kernel in set(self._kernels()) - kernels:
                    kernel.unlink()

    def _kernels(self) -> Iterator[Path]:
        return (self.directory / "dumpfilter").rglob("*.nb[ic]")


def _forget_bytecode(module: Path) -> None:
    """Remove Python's cache of a module, which would be valid for another text of one size and second."""
    for path in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        path.unlink()


def stages(mutant: Mutant, entered: dict[str, dict[str, float]], quick: bool) -> Iterator[list[str]]:
    """Yield the tests that may kill a mutant: those of files that import its module, other quick ones, slow files."""
    near = [path for path in _importers(mutant.module, "tests") if path.startswith(_ROOMS_OF_TESTS)]
    tests = entered.get(f"{mutant.module} {mutant.function}") or _around(mutant.module, entered)
    yield _shortest({test: time for test, time in tests.items() if test.partition("::")[0] in near})
    yield _shortest({test: time for test, time in tests.items() if test.partition("::")[0] not in near})
    if not quick:
        yield [mutant.module, *(path for path in near if path.endswith("_slow.py"))]


def _around(module: str, entered: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the tests that enter a function of the module or of its importers. No trace sees compiled functions."""
    modules = {module, *_importers(module, "dumpfilter"), *_importers(module, "slave")}
    found = {
        test: time
        for name, tests in entered.items()
        if name.split()[0] in modules
        for test, time in tests.items()
    }
    return dict(sorted(found.items(), key=lambda one: one[1]))


def _shortest(tests: dict[str, float]) -> list[str]:
    total = 0.0
    found = []
    for test, seconds in tests.items():
        total += seconds
        if total > STAGE:
            break
        found.append(test)
    return found


def _importers(module: str, part: str) -> list[str]:
    """Return the modules below a directory that import a module."""
    dotted = ".".join(["dumpfilter", *Path(module.removeprefix("dumpfilter/")).with_suffix("").parts])
    package, _, stem = dotted.rpartition(".")
    says = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    return [
        str(path.relative_to(ROOT))
        for path in (ROOT / part).rglob("*.py")
        if says.search(path.read_text("utf-8"))
    ]


_ROOMS_OF_TESTS = tuple(f"tests/{room}/" for room in ROOMS)


def main() -> int:
    """Print each mutant's fate and the share that was killed; return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--log", type=Path, required=True, help="the file of verdicts; LOG.entered is beside it"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the slow tests")
    parser.add_argument("parts", nargs="*", default=PARTS, help="directories of the product")
    given = parser.parse_args()
    for library in LIBRARIES:
        importlib.import_module(library)
    log: Path = given.log
    log.touch()
    killed = {
        line.split("\t")[1] for line in log.read_text("utf-8").splitlines() if line.startswith("killed")
    }
    mutants = drawn(given.parts, given.count, given.seed)
    judged = [one for one in mutants if one.name not in EQUIVALENT]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        checkout = Checkout(Path(directory))
        map_file = log.with_suffix(".entered")
        if not map_file.exists():
            rooms = [f"tests/{room}" for room in ROOMS]
            checkout.failing_test(
                ["--quick", "--maxfail=1000", *given.parts, *rooms],
                Entered(checkout.directory, map_file.absolute()),
                limit=resource.RLIM_INFINITY,
            )
        entered = json.loads(map_file.read_text("utf-8"))
        for mutant in judged:
            if mutant.name in killed:
                continue
            with checkout.mutated(mutant):
                by = next(
                    filter(
                        None,
                        (
                            checkout.failing_test(stage)
                            for stage in stages(mutant, entered, given.quick)
                            if stage
                        ),
                    ),
                    "",
                )
            verdict = f"{'killed' if by else 'SURVIVES'}\t{mutant.name}\tline {mutant.line}\t{by}"
            print(verdict, flush=True)
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{verdict}\n")
            if by:
                killed.add(mutant.name)
    found = sum(one.name in killed for one in judged)
    print(
        f"{found} of {len(judged)} killed ({found / max(1, len(judged)):.1%}), {len(mutants) - len(judged)} equivalent"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
