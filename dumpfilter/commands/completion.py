"""Shell completion of option values. The shell runs the command anew for each completion."""

from __future__ import annotations

from collections.abc import MutableMapping


def join_bash_values(asked: MutableMapping[str, str]) -> None:
    r"""Change the variables of bash's completion so that Typer completes a value that is typed after ``=``.

    ``asked`` is the environment with COMP_WORDS and COMP_CWORD. Bash gives ``--log-format=j`` as three words, of which
    Typer would take ``=`` for the option's value.

    >>> asked = {"COMP_WORDS": "dumpfilter\n--log-format\n=\nj", "COMP_CWORD": "3"}
    >>> join_bash_values(asked)
    >>> asked
    {'COMP_WORDS': 'dumpfilter\n--log-format\nj', 'COMP_CWORD': '2'}
    """
    words = asked.get("COMP_WORDS", "").split("\n")
    number = asked.get("COMP_CWORD", "")
    if not number.isdecimal():
        return
    typed = int(number)
    signs = {
        place
        for place in range(1, min(typed, len(words)))
        if words[place] == "=" and words[place - 1].startswith("--")
    }
    if signs:
        asked["COMP_WORDS"] = "\n".join(word for place, word in enumerate(words) if place not in signs)
        asked["COMP_CWORD"] = str(typed - len(signs))


def complete_variant(incomplete: str) -> list[str]:
    """Return the names of the simulation variants that begin with the typed text, for the completion of a shell.

    A variant is a way to bring the binlog to slaves, such as ``filter-on-master``.
    """
    from dumpfilter.simulation.results import SIMULATED

    return [variant.value for variant in SIMULATED if variant.value.startswith(incomplete)]
