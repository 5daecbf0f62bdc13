"""dumpfilter: a master-side dump filter for MySQL and MariaDB replication.

The names in ``__all__`` are the public API, which ``docs/api.md`` describes with examples. Everything else in the
package may change without notice.

A name's module is imported when the name is first used, since numpy, gRPC and the compiled code take a while to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dumpfilter.analyse.explain import ExplainedSet as ExplainedSet
    from dumpfilter.analyse.explain import ExplainedStatement as ExplainedStatement
    from dumpfilter.analyse.explain import Filters as Filters
    from dumpfilter.analyse.explain import explain_set as explain_set
    from dumpfilter.analyse.explain import explain_statement as explain_statement
    from dumpfilter.base.errors import DumpfilterError as DumpfilterError
    from dumpfilter.binlog.events import EventType as EventType
    from dumpfilter.binlog.gtid import parse_gtid_set as parse_gtid_set
    from dumpfilter.binlog.reader import iter_events as iter_events
    from dumpfilter.binlog.workload import generate as generate
    from dumpfilter.dump.chunk import Counts as Counts
    from dumpfilter.dump.set_pass import filter_set as filter_set
    from dumpfilter.filter.base import Decision as Decision
    from dumpfilter.filter.base import Verdict as Verdict
    from dumpfilter.filter.effective import EffectiveFilter as EffectiveFilter
    from dumpfilter.filter.filter import Filter as Filter
    from dumpfilter.filter.filter import WriteFilter as WriteFilter
    from dumpfilter.index.fileset import BinlogSet as BinlogSet

__version__ = "0.2.0"

_MODULES = {
    "BinlogSet": "dumpfilter.index.fileset",
    "Counts": "dumpfilter.dump.chunk",
    "Decision": "dumpfilter.filter.base",
    "DumpfilterError": "dumpfilter.base.errors",
    "EffectiveFilter": "dumpfilter.filter.effective",
    "EventType": "dumpfilter.binlog.events",
    "ExplainedSet": "dumpfilter.analyse.explain",
    "ExplainedStatement": "dumpfilter.analyse.explain",
    "Filter": "dumpfilter.filter.filter",
    "Filters": "dumpfilter.analyse.explain",
    "Verdict": "dumpfilter.filter.base",
    "WriteFilter": "dumpfilter.filter.filter",
    "explain_set": "dumpfilter.analyse.explain",
    "explain_statement": "dumpfilter.analyse.explain",
    "filter_set": "dumpfilter.dump.set_pass",
    "generate": "dumpfilter.binlog.workload",
    "iter_events": "dumpfilter.binlog.reader",
    "parse_gtid_set": "dumpfilter.binlog.gtid",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Return the object with the public name ``name``, and import its module at the first use of the name (PEP 562).
    Raises AttributeError for a name that is not public.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
