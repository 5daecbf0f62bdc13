"""Questions to the console of a master or slave, with the answers as rows by column name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dumpfilter.console.client import StatementFailed, run_statements
from dumpfilter.console.script import ScriptStatement
from dumpfilter.errors import ConnectionLost
from dumpfilter.security.guarded_client import Login
from dumpfilter.status.model import NotOurs, StatusRefused

Rows = list[dict[str, Any]]

_COMMENT = "SELECT @@version_comment AS comment"

_VERSION = re.compile(r"dumpfilter (\d\S*), ")
"""The beginning of a console's version_comment, such as ``dumpfilter 0.2.0, master``."""


def ask(login: Login, role: str, statements: Sequence[str]) -> tuple[str, list[Rows]]:
    """Return the version of the dumpfilter behind a console, and the rows of each statement.

    The version is empty for a slave of an early release, which does not tell its version.
    ``role`` is ``master`` or ``slave``. Raises ConnectionLost when nothing answers, NotOurs when another program
    answers, and StatusRefused when the console refuses the login or a statement.
    """
    where = f"{login.host}:{login.port}"
    try:
        ((comment,),) = _run(login, [_COMMENT])
        _check_role(str(comment["comment"]), role, where)
        told = _VERSION.match(str(comment["comment"]))
        return told[1] if told else "", _run(login, statements)
    except StatementFailed as error:
        raise StatusRefused(
            f"the console {where} refuses: {error}; give the console's --user and --password-file"
        ) from None
    except NotOurs:
        raise
    except ConnectionLost as error:
        raise ConnectionLost(
            f"console {error}; is the {role} running with --console-port, and is this its address?"
        ) from None


def _run(login: Login, statements: Sequence[str]) -> list[Rows]:
    asked = [ScriptStatement(text, number) for number, text in enumerate(statements, 1)]
    return [
        [dict(zip(found.names, row, strict=True)) for row in found.rows]
        for found in run_statements(login, asked)
    ]


def _check_role(comment: str, role: str, where: str) -> None:
    if "dumpfilter" not in comment:
        raise NotOurs(
            f"{where}: another server answers here ({comment}); name the console of a {role} of dumpfilter"
        )
    if role not in comment:
        other, option = ("slave", "--slave") if role == "master" else ("master", "--console")
        raise NotOurs(f"{where}: this is the console of a {other}; ask it with {option} {where}")
