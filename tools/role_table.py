"""``python tools/role_table.py``: write the table of roles in ``docs/console.md`` from ``dumpfilter.console.roles``.

A test compares the page with this script's output.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.console.roles import COMMANDS, STATEMENTS, Role

PAGE = Path(__file__).parent.parent / "docs" / "console.md"

_BEGIN, _END = "<!-- begin roles -->\n", "<!-- end roles -->"


def with_table(page: str) -> str:
    """Return the page with its table of roles as the code has it."""
    before, _, rest = page.partition(_BEGIN)
    return before + _BEGIN + "\n".join(_table()) + "\n" + _END + rest.partition(_END)[2]


def _table() -> list[str]:
    rows = []
    for role in Role:
        needs = [need for need in (*STATEMENTS.values(), *COMMANDS.values()) if need.role is role]
        shown = ", ".join(f"`{need.statement}`" for need in needs if not need.changes)
        changing = ", ".join(f"`{need.statement}`" for need in needs if need.changes)
        rows.append(f"| `{role}` | {shown} | {changing} |")
    return ["| role | statements that change nothing | statements in the audit log |", "|---|---|---|", *rows]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
