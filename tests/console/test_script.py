"""A script of statements is divided where the ``mariadb`` client divides it."""

from __future__ import annotations

from dumpfilter.console.script import script_statements


def test_statements_of_a_script() -> None:
    script = "/*!40000 A */ x;;\n#c;\nselect '\\';', `a;``b`\\gB\\G c /* ; */ d\n;'unclosed;"
    assert [(s.text, s.line, s.vertical) for s in script_statements(script)] == [
        ("/*!40000 A */ x", 1, False),
        ("select '\\';', `a;``b`", 3, False),
        ("B", 3, True),
        ("c /* ; */ d", 3, False),
        ("'unclosed;", 4, False),
    ]
