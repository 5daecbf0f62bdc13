"""Run the notebooks of ``examples/notebooks``, and store their outputs.

``python tools/notebooks.py`` runs all notebooks in place. The tests run the notebooks, too, and compare the outputs
with the stored ones. The cells run in this process, without a kernel of Jupyter.
"""

from __future__ import annotations

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
    """Run the code cells of a notebook one after the other, and store the new outputs in the cells. ``cells`` has the
    cells as the notebook's JSON has them.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = _outputs_of("".join(cell["source"]), names)


def _outputs_of(source: str, names: dict[str, Any]) -> list[Any]:
    """Run a cell's code ``source`` with the variables ``names``. Return the printed text and the value of the last
    expression, as outputs in the notebook's JSON.
    """
    tree = ast.parse(source)
    last = ast.unparse(tree.body.pop()) if isinstance(tree.body[-1], ast.Expr) else "None"
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(last, names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        found.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        shown = {form: getattr(value, name, None) for form, name in _FORMS.items()}
        data = {form: show().splitlines(keepends=True) for form, show in shown.items() if show}
        found.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def outputs(cells: list[Any]) -> list[Any]:
    """Return the texts that the cells of a notebook print or show, as one list for each code cell. ``cells`` has the
    cells as the notebook's JSON has them.
    """
    return [
        ["".join(one.get("text") or one["data"]["text/plain"]) for one in cell["outputs"]]
        for cell in cells
        if cell["cell_type"] == "code"
    ]


def main() -> None:
    """Run the notebooks that the command line names, or all, and store their outputs."""
    # Spark would start its Python processes with the first python3 of the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for path in [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = json.loads(path.read_bytes())
        run(notebook["cells"])
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(path)


if __name__ == "__main__":
    main()
