"""Run the notebooks of ``examples/notebooks``, and store their outputs.

``python tools/notebooks.py`` runs all notebooks in place. The tests run the notebooks, too, and compare the outputs
with the stored ones. The cells run in this process, without a kernel of Jupyter.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"

_FORMS = {"text/html": "_repr_html_", "text/plain": "__repr__"}
"""The forms of a shown value, with the methods that return them."""


def run(cells: list[Any]) -> None:
    """Run the cells with code one after the other, and give them their new outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = _outputs_of("".join(cell["source"]), names)


def _outputs_of(source: str, names: dict[str, Any]) -> list[Any]:
    """Run a cell, and return the text that it prints and the value of its last expression."""
    *statements, last = ast.parse(source).body
    is_value = isinstance(last, ast.Expr)
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(statements if is_value else [*statements, last], []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {
            form: getattr(value, name)().splitlines(keepends=True)
            for form, name in _FORMS.items()
            if hasattr(value, name)
        }
        found.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def outputs(cells: list[Any]) -> list[Any]:
    """Return the texts that the cells print or show, one list for each cell with code."""
    return [
        ["".join(one.get("text") or one["data"]["text/plain"]) for one in cell["outputs"]]
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def main() -> None:
    """Run all notebooks, or those that the command line names."""
    parser = argparse.ArgumentParser(description="Run notebooks in place, and store their outputs.")
    parser.add_argument(
        "notebooks", nargs="*", type=Path, help="the notebooks; without names, all of examples/notebooks"
    )
    named = parser.parse_args().notebooks
    for path in named:
        if not path.is_file():
            parser.error(f"{path}: there is no such notebook")
    # Spark would start its Python processes with the first python3 of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for path in named or sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_bytes())
        run(notebook["cells"])
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(path)


if __name__ == "__main__":
    main()
