"""The parsers of the options of ``dumpfilter simulate`` that say what is simulated: ``--sweep``, ``--scale-load``,
``--variant``, ``--find`` and ``--binlog``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import did_you_mean, parse_rate, parse_time
from dumpfilter.simulation.plan import Plan
from dumpfilter.simulation.results import SIMULATED, Setting, Variant
from dumpfilter.simulation.simulate import Search
from dumpfilter.topology.model import Topology

_WORDS = ("rate", "delay")
MOST_LOAD = 1_000_000


class Sweep(NamedTuple):
    """A value of the option ``--sweep``: a rate or delay of links, with several values. The simulation makes one run
    for each.
    """

    what: str
    """The varied property, ``rate`` or ``delay``."""
    link: str | None
    """The name of the link that is varied. None: all links."""
    values: tuple[int, ...]
    """The rates in bits per second, or the delays in microseconds."""


def parse_sweep(text: str, links: Sequence[str]) -> Sweep:
    """Parse a value of ``--sweep``: a property of links and the values to simulate one after another, such as
    ``rate=1mbit,2mbit``.

    A link's name may precede the property, as in ``m:web.delay=0s,50ms``. ``links`` has the names of all links. Raises
    OptionError for an unknown link or a bad value.

    >>> parse_sweep("m:web.rate=1mbit,2mbit", ["m:web"])
    Sweep(what='rate', link='m:web', values=(1000000, 2000000))
    """
    key, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise OptionError(f"--sweep {text!r}: write what to vary and its values, such as rate=512kbit,1mbit")
    what, link = _what("--sweep", key, links)
    try:
        found = tuple(
            parse_rate(value) if what == "rate" else round(parse_time(value) * 1e6)
            for value in values.split(",")
        )
    except OptionError as error:
        raise OptionError(f"--sweep {text!r}: {error}") from None
    return Sweep(what, link, tuple(dict.fromkeys(found)))


def parse_variants(names: Iterable[str]) -> tuple[Variant, ...]:
    """Return the variants (ways to bring the binlog to the slaves, such as ``filter-on-master``) with these names.

    Duplicates are removed. Raises OptionError for a name that is unknown or that only experiments support.
    """
    known = [variant.value for variant in SIMULATED]
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"; it is one of {', '.join(known)}"
            raise OptionError(f"--variant {name!r}: there is no such variant{near}")
    return tuple(dict.fromkeys(map(Variant, names)))


def parse_loads(text: str) -> tuple[float, ...]:
    """Return the load factors in a text such as ``1,2,5``, without duplicates.

    A factor of 2 makes commits twice as frequent. Raises OptionError for a factor that is no number, is not greater
    than 0, or is greater than :data:`MOST_LOAD`.

    >>> parse_loads("1,2.5")
    (1.0, 2.5)
    """
    try:
        loads = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        loads = (0.0,)
    if not all(0 < load <= MOST_LOAD for load in loads):
        raise OptionError(f"--scale-load {text!r}: write factors greater than 0, such as 1,2,5")
    return loads


def settings_of(
    variants: Sequence[Variant], loads: Sequence[float], sweeps: Sequence[Sweep] = ()
) -> tuple[Setting, ...]:
    """Return the parameters of each run to simulate: all combinations of variants, loads and values of sweeps.

    A variant is a way to bring the binlog to the slaves. A load is a factor of the pace of commits. A sweep has several
    rates or delays of links. Without a sweep the links are unchanged. Raises OptionError if two sweeps vary the same
    property, or if a sweep of the rate and a sweep of the delay are about different links.
    """
    if len({sweep.link for sweep in sweeps}) > 1 or len({sweep.what for sweep in sweeps}) < len(sweeps):
        raise OptionError("--sweep: vary one rate and one delay at most, both of one link or of all links")
    link = sweeps[0].link if sweeps else None
    return tuple(
        Setting(variant=variant, load=load, link=link, **dict(values))
        for values in itertools.product(*([(one.what, value) for value in one.values] for one in sweeps))
        for load in loads
        for variant in variants
    )


def searches_of(
    texts: Iterable[str], variants: Sequence[Variant], loads: Sequence[float], links: Sequence[str]
) -> tuple[Search, ...]:
    """Return the searches for a limiting rate or delay that the values of ``--find`` ask for, such as ``m:web.delay``.

    There is one search for each value, load (factor of the pace of commits) and variant (way to bring the binlog to the
    slaves). ``links`` has the names of all links. Raises OptionError for an unknown link or property.
    """
    return tuple(
        Search(what, Setting(variant=variant, load=load, link=link))
        for what, link in (_what("--find", text, links) for text in texts)
        for load in loads
        for variant in variants
    )


def _what(option: str, key: str, links: Sequence[str]) -> tuple[str, str | None]:
    link, dot, what = key.strip().rpartition(".")
    if what not in _WORDS:
        raise OptionError(f"{option} {key!r}: {what!r} is neither rate nor delay{did_you_mean(what, _WORDS)}")
    if dot and link not in links:
        raise OptionError(f"{option} {key!r}: there is no link {link!r}{did_you_mean(link, links)}")
    return what, link or None


def binlog_sets(plan: Plan, topology: Topology | None, binlogs: Sequence[str]) -> dict[str, str]:
    """Return the path of the binlog set of each origin (a node of the topology that writes binlogs), by its name.

    ``binlogs`` are the values of ``--binlog``. ``m=bin.index`` is the set of the origin ``m``, or of the origin that
    the node ``m`` reads from. ``bin.index`` alone is for a simulated topology (``plan``) with one origin. An origin
    that is a recording (binlogs that a server wrote earlier) has its set in the topology, and a value of ``--binlog``
    replaces that set.

    Raises OptionError for an origin without a set, for an unknown name, and for a set without a name if the plan has
    several origins.
    """
    names = {origin: origin for origin in plan.origins}
    found: dict[str, str] = {}
    if topology is not None:
        for origin in plan.origins:
            node = topology[origin]
            if node.binlogs:
                found[origin] = str(node.binlogs)
            # A workload or recording is often known by the name of the master that reads it.
            for reader in topology.readers[origin]:
                names.setdefault(reader.name, origin)
    for text in binlogs:
        name, equals, path = text.partition("=")
        # A path or an address can have an equals sign, and the name of a node has no slash.
        if not equals or "/" in name:
            if len(plan.origins) > 1:
                origins = ", ".join(plan.origins)
                raise OptionError(
                    f"--binlog {text}: the topology has several origins ({origins}); write NODE={text}"
                )
            name, path = plan.origins[0], text
        if name not in names:
            raise OptionError(
                f"--binlog {text}: there is no origin {name!r}{did_you_mean(name, sorted(names))}"
            )
        found[names[name]] = path
    for origin in plan.origins:
        if origin not in found:
            option = "--binlog SET" if len(plan.origins) == 1 else f"--binlog {origin}=SET"
            raise OptionError(f"the binlog set of {origin} is missing; give it with {option}")
    return found
