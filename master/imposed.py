"""Filters that the master's operator imposes on slaves, chosen by server id, user or network.

WL#2387 leaves such filters as an open issue.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Self

from pydantic import Field, IPvAnyNetwork, PrivateAttr, ValidationInfo, model_validator

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.toml_file import Model, wrong
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.filter import FilterSemantics, ReplicationFilter, make_filter, parse_option
from dumpfilter.filter.boundary import BoundaryFilter, OnUndecided
from dumpfilter.master.who import Peer, Who

Name = Annotated[str, Field(min_length=1, max_length=64)]
ServerId = Annotated[int, Field(ge=1, le=0xFFFFFFFF)]


class FilterTable(Model):
    """The base class of the configuration's TOML tables that give a filter to slaves. It has the rules' semantics
    (effective or classic), and conditions on server id and network.
    """

    semantics: FilterSemantics = FilterSemantics.CLASSIC
    server_ids: frozenset[ServerId] = frozenset()
    networks: tuple[IPvAnyNetwork, ...] = ()
    _names: NameRules = PrivateAttr(DEFAULT_NAMES)

    @model_validator(mode="after")
    def _take_names(self, info: ValidationInfo) -> Self:
        self._names = (info.context or {}).get("names", DEFAULT_NAMES)
        return self

    def filter_of(self, rules: Iterable[str]) -> ReplicationFilter:
        """Return the filter with ``rules``, texts such as ``--replicate-do-db=shop``, in the semantics of this table.
        Raises OptionError for a rule that is not valid.
        """
        parsed = [parse_option(rule, self.semantics) for rule in rules]
        return make_filter(self.semantics, parsed, names=self._names)


class ImposedFilter(FilterTable):
    """One table ``[[imposed]]``: a filter that the master's operator imposes on some slaves.

    A slave gets the events that pass its own filter and every filter imposed on it. The conditions name server ids,
    users and networks; an empty condition is met by every slave. The rules compare the names that databases have on
    the master, before any ``--replicate-rewrite-db`` of the slave. ``on_undecided`` says whether an event that the
    filter cannot decide is sent, dropped, or stops the dump. A rewrite rule is an error.
    """

    name: Name
    rules: Annotated[tuple[str, ...], Field(min_length=1)]
    users: frozenset[Name] = frozenset()
    on_undecided: OnUndecided = OnUndecided.STOP

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            rewrites = [rule for rule in self.filter.rules if rule.kind.is_rewrite]
        except OptionError as error:
            raise wrong(f"{self.name!r}: {error}", "rules") from None
        if rewrites:
            raise wrong(
                f"{self.name!r}: {rewrites[0]}: a master imposes what passes; names are rewritten by the slave alone",
                "rules",
            )
        return self

    @cached_property
    def filter(self) -> ReplicationFilter:
        """The filter with the rules of this table."""
        return self.filter_of(self.rules)

    @cached_property
    def who(self) -> Who:
        """The condition that selects the slaves on which the filter is imposed."""
        return Who(users=self.users, server_ids=self.server_ids, networks=self.networks)

    @property
    def sends(self) -> tuple[object, ...]:
        """A key of the filter's decisions, without the conditions on slaves. Filters with equal keys send and drop the
        same events.
        """
        return self.name, self.on_undecided, type(self.filter), self.filter.rules, self.filter.names

    @property
    def boundary(self) -> BoundaryFilter:
        """The filter by which dumps keep the forbidden rows from the slave, whatever its own filter is. It is stricter
        than the rules alone. ``on_undecided`` says whether a dump stops at an event that it cannot decide, or drops it.
        """
        return BoundaryFilter(self.filter, self.on_undecided, name=self.name)


def imposed_on(filters: Iterable[ImposedFilter], peer: Peer) -> tuple[ImposedFilter, ...]:
    """Return the filters among ``filters`` that are imposed on the slave ``peer``.

    A slave with an unknown address meets every condition on networks, so that no slave escapes a filter.
    """
    return tuple(one for one in filters if one.who.fits(peer, unknown_address=True))
