"""``python tools/mutants.py COUNT``: change the product in small ways, and see whether the tests notice.

A mutant is the product with one change: another comparison, a negated condition, a number that is one off, a statement
less. The changes are drawn by a seed from the functions of the decision and of the slave. A change of another function
leaves the draw as it is. A survivor needs a test, or its code is superfluous.

One process imports the product and collects the tests once. Its first forks note, file by file, which quick tests enter
which functions. Each mutant has a fork whose functions have the changed code. It runs the quick tests that enter the
changed function, the shortest first, and then those of slow files that import its module or lie in its room. A mutant
of a kernel, or of a function that runs at an import, is judged by a new process.

The log keeps the verdicts. A second run judges only the mutants that have no line there.

    $ python tools/mutants.py 300 --seed 1 --log out/mutants.log
    $ python tools/mutants.py 300 --seed 1 --log out/mutants.log --seconds 240    # stop after 4 minutes
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import gc
import hashlib
import itertools
import json
import math
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("dumpfilter/dump", "dumpfilter/filter", "dumpfilter/index", "dumpfilter/slave")
ROOMS = ("dump", "filter", "index", "slave", "console", "edge", "receiver", "oracle", "master", "analyse")
"""The folders of the tests that may kill a mutant."""

QUICK_SECONDS = 30
"""The longest time of a mutant's quick tests in the run that noted them. The shortest tests are taken."""

SECONDS = 60
"""The time of a mutant's quick and slow tests. Slow tests that would begin later are left out."""

OPTIONS = ("-q", "-s", "-x", "-n0", "-p", "no:cacheprovider", "--timeout=60")
"""The options of all runs of pytest. The timeout kills a mutant whose test waits forever."""

DEADLINE = 150
"""The longest time of a run of tests, seconds. A mutant that pytest's timeout cannot interrupt is killed by it."""

CPU_LIMIT = 180
"""The longest processor time of a run of tests, seconds. A mutant with an endless compiled loop is killed by it."""

KERNELS = "dumpfilter.base.compiler.kernels import"
"""A text of all modules with compiled functions."""

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


def importers(module: str, part: str) -> set[str]:
    """Return the modules below a directory that import a module."""
    dotted = ".".join(Path(module).with_suffix("").parts)
    package, _, stem = dotted.rpartition(".")
    says = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{stem}\b")
    return {path for path in _modules(part) if says.search(_text(path))}


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


class Judge:
    """A plugin of pytest that judges mutants with the collected tests. Each mutant has a fork of this process."""

    def __init__(self, mutants: list[Mutant], log: Path, end: float) -> None:
        self._mutants = mutants
        self._log = log
        self._end = end
        self._checkout = Path.cwd()
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[tuple[str, str, int], FunctionType] = {}
        self._entered = defaultdict[str, dict[str, float]](dict)
        self._seen: dict[int, CodeType] = {}
        self._reports: list[tuple[pytest.TestReport, set[str]]] = []
        self._trace(self._enter)

    @staticmethod
    def _trace(call: Callable[[FrameType, str, object], None] | None) -> None:
        sys.settrace(call)
        threading.settrace(call)

    def _enter(self, frame: FrameType, _event: str, _value: object) -> None:
        self._seen[id(frame.f_code)] = frame.f_code

    def _taken(self) -> set[str]:
        """Return the modules and names of the functions that were entered since the last call."""
        seen, self._seen = self._seen, {}
        places = [self._place(code) for code in list(seen.values())]
        return {f"{module} {name}" for module, name in places if module.startswith(PARTS)}

    def _place(self, code: CodeType) -> tuple[str, str]:
        return os.path.relpath(code.co_filename, self._checkout), code.co_qualname

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the report of a part of a test, and the functions that it entered."""
        self._reports.append((report, self._taken()))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Note what the quick tests enter, and judge the mutants until the time is over."""
        self._trace(None)
        at_import = self._taken()
        self._items = {one.nodeid: one for one in session.items}
        gc.unfreeze()  # gc.get_objects leaves out what is frozen
        for one in filter(lambda one: isinstance(one, FunctionType), gc.get_objects()):
            module, name = self._place(one.__code__)
            if (
                f"{module} {name}" not in at_import
                and module.startswith(PARTS)
                and KERNELS not in _text(module)
            ):
                self._functions[module, name, one.__code__.co_firstlineno] = one
        gc.freeze()
        self._note_all()
        for mutant in self._mutants:
            if time.monotonic() > self._end:
                break
            by = self._judge(mutant)
            entered = len(self._entered[f"{mutant.module} {mutant.function}"])
            line = f"{mutant.name}\tline {mutant.line}\tentered by {entered} quick tests\t{by}"
            with self._log.open("a", encoding="utf-8") as out:
                out.write(f"{'killed' if by else 'SURVIVES'}\t{line}\n")
        return True

    def _note_all(self) -> None:
        from tests.conftest import is_quick  # the module that pytest uses

        notes = self._log.with_suffix(".entered")
        notes.touch()
        known = {json.loads(line)[0] for line in notes.read_text("utf-8").splitlines()}
        quick = [test for test, item in self._items.items() if is_quick(item)]
        for file, tests in itertools.groupby(quick, _file):
            if file not in known and time.monotonic() < self._end:
                self._forked(functools.partial(self._note, file, list(tests), notes))
        for line in notes.read_text("utf-8").splitlines():
            _, names, tests_of_file = json.loads(line)
            for test, seconds, numbers in tests_of_file:
                for number in numbers:
                    self._entered[names[number]][test] = seconds

    def _note(self, file: str, tests: list[str], notes: Path) -> None:
        """Write the functions that the passing tests of a file enter. A fixture counts for each test of the file."""
        self._run(tests, traced=True)
        shared = {name for report, names in self._reports if report.when == "setup" for name in names}
        calls = [(one, names | shared) for one, names in self._reports if one.when == "call" and one.passed]
        numbers = defaultdict[str, int](itertools.count().__next__)
        found = [
            (one.nodeid, round(one.duration, 3), [numbers[name] for name in names]) for one, names in calls
        ]
        with notes.open("a", encoding="utf-8") as out:
            out.write(f"{json.dumps([file, list(numbers), found])}\n")

    def _run(self, tests: list[str], *, traced: bool = False) -> None:
        """Run tests up to the first failing one, which is printed. A traced run goes on, and keeps the reports."""
        end = time.monotonic() + SECONDS
        for test, following in itertools.zip_longest(tests, tests[1:]):
            if traced:
                self._trace(self._enter)  # again for each test, since libraries end traces
            else:
                self._reports.clear()
            item, nextitem = self._items[test], self._items.get(following)
            item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            failed = any(report.failed for report, _ in self._reports)
            if failed and not traced:
                print(f"\nFAILED {test}", flush=True)
            if not traced and (failed or time.monotonic() > end):
                return

    def _judge(self, mutant: Mutant) -> str:
        """Return the first failing test, the end of a run that did not end by itself, or an empty text."""
        tests = self._entered[f"{mutant.module} {mutant.function}"] or self._around(mutant.module)
        total = itertools.accumulate(sorted(tests.values()))
        shortest = zip(sorted(tests, key=tests.__getitem__), total, strict=True)
        quick = [test for test, seconds in shortest if seconds < QUICK_SECONDS]
        near = importers(mutant.module, "tests")
        room = f"tests/{mutant.module.split('/')[1]}/"
        slow = [
            one for one in self._items if "_slow.py:" in one and (_file(one) in near or one.startswith(room))
        ]
        slow.sort(key=lambda test: (Path(mutant.module).stem not in test, _file(test) not in near))
        tree = mutant.tree()
        changed = self._changed(mutant, tree)
        path = self._checkout / mutant.module
        path.write_text(ast.unparse(tree), "utf-8")

        def run() -> None:
            if not changed:
                arguments = [*OPTIONS, f"--session-timeout={SECONDS}", *quick, *slow]
                os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
            for function, code in changed:
                function.__code__ = code
            self._run([*quick, *slow])

        try:
            return self._forked(run) if quick or slow else ""
        finally:
            shutil.copy2(ROOT / mutant.module, path)

    def _around(self, module: str) -> dict[str, float]:
        """Return the tests that enter the module or its importers. No trace sees compiled functions."""
        modules = {module, *importers(module, "dumpfilter")}
        found = [tests for name, tests in self._entered.items() if name.split()[0] in modules]
        return {test: seconds for tests in found for test, seconds in tests.items()}

    def _changed(self, mutant: Mutant, tree: ast.Module) -> list[tuple[FunctionType, CodeType]]:
        """Return a living function and its changed code, or nothing if only a new process can have the change."""
        name = mutant.function.partition(".<locals>")[0]
        found = [
            (function, code)
            for code in _codes(compile(tree, self._checkout / mutant.module, "exec"))
            if code.co_qualname == name
            and (function := self._functions.get((mutant.module, name, code.co_firstlineno)))
        ]
        return found if all(one.__code__.co_freevars == code.co_freevars for one, code in found) else []

    def _forked(self, work: Callable[[], None]) -> str:
        """Do work in a child that has deadlines; return what it prints of a failing test, or how it was killed."""
        child = os.fork()
        if not child:
            try:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
                output = os.open("../output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                for stream in (1, 2):
                    os.dup2(output, stream)
                work()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        select.select([os.pidfd_open(child)], [], [], DEADLINE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # servers that a killed test has left, too
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = Path("../output").read_text("utf-8", "replace")
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        return failed[0] if failed else f"signal {-code}" if code < 0 else ""


def _file(test: str) -> str:
    return test.partition("::")[0]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def main() -> int:
    """Judge mutants, and print how many were killed; return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--log", type=Path, required=True, help="the file of verdicts; LOG.entered is beside it"
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="judge no further mutant after this time"
    )
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    log = given.log.absolute()
    mutants = drawn(given.count, given.seed)
    judged = [one for one in mutants if one.name not in EQUIVALENT]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        checkout = Path(directory, "checkout")
        left_out = shutil.ignore_patterns(".venv", ".git", "out", ".hypothesis")
        shutil.copytree(ROOT, checkout, symlinks=True, ignore=left_out)
        os.chdir(checkout)
        os.environ.update(PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(checkout))
        sys.path[0], sys.dont_write_bytecode = str(checkout), True
        open_ones = [one for one in judged if one.name not in _verdicts(log)]
        arguments = [*OPTIONS, *PARTS, *(f"tests/{room}" for room in ROOMS)]
        pytest.main(arguments, plugins=[Judge(open_ones, log, end)])
    verdicts = Counter(_verdicts(log).get(one.name, "not judged yet") for one in judged)
    print(f"{dict(verdicts)}, {len(mutants) - len(judged)} equivalent")
    return 0


def _verdicts(log: Path) -> dict[str, str]:
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return {line.split("\t")[1]: line.split("\t")[0] for line in lines}


if __name__ == "__main__":
    sys.exit(main())
