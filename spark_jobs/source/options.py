"""The options of the Spark data source ``binlog``: parsing, defaults and checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from dumpfilter.errors import OptionError
from dumpfilter.options.sizes import parse_size
from dumpfilter.spark_jobs.ranges.range_index import RANGE_SIZE
from dumpfilter.spark_jobs.source.columns import TYPES

BYTES_PER_TRIGGER = 1 << 30
"""The default of the option ``maxBytesPerTrigger``: the number of binlog bytes that a streaming query reads in one
micro-batch."""


@dataclass(frozen=True)
class SourceOptions:
    """The options of one query of the data source. docs/spark-source.md describes them. Sizes are in bytes."""

    sources: str | list[str]
    """The binlog set: its index file, a directory with its index file, or a list of binlog files; paths or URIs."""
    columns: tuple[str, ...] = tuple(TYPES)
    opened: bool = True
    """Whether each event inside a compressed transaction has a row of its own, besides the row of the compressed
    event."""
    verify: bool = True
    """Whether the events' checksums are checked."""
    range_size: int = RANGE_SIZE
    """The target size of a range, which is the part of a file that one Spark task reads."""
    skip_corrupt: bool = False
    """Whether a damaged file is skipped from the damage on, instead of an error."""
    cuts: str | None = None
    """The offsets at which the files are divided into ranges, as JSON. None: the query finds the offsets by itself.

    :func:`~dumpfilter.spark_jobs.source.planning.index_with_spark` computes them once for many queries.
    """
    starting_position: str = "earliest"
    """The position at which a new streaming query begins: ``earliest``, ``latest``, or ``file:position``."""
    bytes_per_trigger: int = BYTES_PER_TRIGGER

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Return the options of a query, parsed from the texts that the user gave to Spark.

        The names may be in upper or lower case, since Spark ignores the case of option names. Raises OptionError for
        an unknown name or a bad value.
        """
        given = {name.lower(): value for name, value in options.items()}
        unknown = given.keys() - {name.lower() for name in _NAMES}
        if unknown:
            raise OptionError(
                f"the data source binlog has no option {', '.join(sorted(unknown))}; "
                f"its options are {', '.join(_NAMES)}"
            )
        return cls(
            sources=_sources(given),
            columns=_columns(given.get("columns")),
            opened=_choice(given, "payloads", ("opened", "closed")) == "opened",
            verify=_choice(given, "verify", ("true", "false")) == "true",
            range_size=_size(given, "rangeSize", RANGE_SIZE),
            skip_corrupt=_choice(given, "onCorrupt", ("stop", "skip")) == "skip",
            cuts=given.get("cuts"),
            starting_position=given.get("startingposition", "earliest"),
            bytes_per_trigger=_size(given, "maxBytesPerTrigger", BYTES_PER_TRIGGER),
        )


_NAMES = (
    "path",
    "paths",
    "files",
    "columns",
    "payloads",
    "verify",
    "rangeSize",
    "onCorrupt",
    "cuts",
    "startingPosition",
    "maxBytesPerTrigger",
)


def _sources(given: Mapping[str, str]) -> str | list[str]:
    if "files" in given:
        found = [line.strip() for line in given["files"].splitlines() if line.strip()]
    elif "paths" in given:
        # Spark passes the list of paths in load([…]) as the option ``paths``, in JSON.
        found = [str(path) for path in json.loads(given["paths"])]
    elif "path" in given:
        return given["path"]
    else:
        found = []
    if not found:
        raise OptionError("the data source binlog needs a path: load('/var/lib/mysql/binlog.index')")
    return found


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return tuple(TYPES)
    asked = [name.strip() for name in text.split(",")]
    unknown = [name for name in asked if name not in TYPES]
    if unknown or len(set(asked)) < len(asked):
        raise OptionError(f"option columns: {text!r}; the columns are {', '.join(TYPES)}, each once")
    return tuple(asked)


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = given.get(name.lower(), choices[0]).lower()
    if value not in choices:
        raise OptionError(f"option {name}: {value!r} is none of {', '.join(choices)}")
    return value


def _size(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower())
    return default if text is None else parse_size(text, option=f"option {name}", least=1)
