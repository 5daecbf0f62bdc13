"""Run the notebooks of ``examples/notebooks``, and store their outputs.

``python tools/notebooks.py`` runs all notebooks in place. The tests run the notebooks, too, and compare the outputs
with the stored ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"

_SECONDS = 300
"""The longest time that a cell may take. Spark's start takes several seconds, and more on a busy machine."""


def run(path: Path) -> Any:
    """Return a notebook with the outputs of a new run. Raises CellExecutionError for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook, timeout=_SECONDS, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    for cell in notebook.cells:
        # The times of the run would change the file at each run. Warnings of Java are not about the example.
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def outputs(notebook: Any) -> list[Any]:
    """Return the texts that the cells print or show, one list for each cell with code."""
    return [
        [one.get("text") or one.get("data", {}).get("text/plain") for one in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
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
    for path in named or sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(run(path), path)  # type: ignore[no-untyped-call]
        print(path)


if __name__ == "__main__":
    main()
