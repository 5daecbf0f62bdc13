"""The filters of a slave's replication channels, and the global filter.

:class:`ChannelFilters` does the work of the server's ``Rpl_filter_map`` (one filter for each channel) and
``Rpl_global_filter``. Each setting says whether an option or a statement configured it. A channel obeys its own filter.
A new channel gets a copy of the global filter, which has no other effect. WL#7361 (filters by channel) and WL#7057
(CHANGE REPLICATION FILTER) describe this behaviour. The facts below are from a running MySQL 9.7, also where a
worklog's text differs:

* CHANGE REPLICATION FILTER without FOR CHANNEL sets rules that new channels get, too. The new channels' column
  CONFIGURED_BY says ``CHANGE_REPLICATION_FILTER``. A kind of rule that such a statement emptied is not copied.
* After CHANGE REPLICATION FILTER without FOR CHANNEL every channel shows the statement's rules. (The worklog's last
  example prints the old rules.)
* The server compares channel names in statements after lower-casing, but in options exactly, and discards
  ``--replicate-do-db=CH1:db1``. Here :func:`split_channel` lower-cases them, since ``--master`` has capitals, too.
* The status tables show the tables of do-table and ignore-table rules sorted by bytes, each once. All other rules
  appear in the order in which the user gave them, with repetitions.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import escape_invalid_utf8
from dumpfilter.binlog.cursor import encode_name
from dumpfilter.filter.collation import lower_case
from dumpfilter.filter.rules import (
    SLAVE_RULE_KINDS,
    BaseRuleKind,
    EffectiveRuleKind,
    FilterClause,
    FilterSemantics,
    Rule,
    ValueForm,
    make_rule,
)

DEFAULT_CHANNEL = ""
GROUP_REPLICATION_CHANNELS = frozenset({"group_replication_applier", "group_replication_recovery"})

MAX_CHANNEL_NAME = 64
"""The maximum length of a replication channel's name, characters."""

_SHOWN_BYTES = 192
"""The number of bytes after which a channel's name is truncated in warnings (the server's format ``%.192s``)."""


class UnknownChannel(OptionError):
    """An error about a replication channel that does not exist. The text names the channel."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        super().__init__(f"there is no channel {channel!r}")


class ConfiguredBy(enum.StrEnum):
    """The values of the column CONFIGURED_BY of ``replication_applier_filters``.

    The column tells whether a start-up option or CHANGE REPLICATION FILTER set the rules, for one channel or for all.
    """

    STARTUP_OPTIONS = "STARTUP_OPTIONS"
    CHANGE_REPLICATION_FILTER = "CHANGE_REPLICATION_FILTER"
    STARTUP_OPTIONS_FOR_CHANNEL = "STARTUP_OPTIONS_FOR_CHANNEL"
    CHANGE_REPLICATION_FILTER_FOR_CHANNEL = "CHANGE_REPLICATION_FILTER_FOR_CHANNEL"


@dataclass(frozen=True)
class Setting:
    """The rules of one kind in the filter of a channel, or in the global filter. A setting is one row of
    ``performance_schema.replication_applier_filters`` or ``replication_applier_global_filters``.

    ``rules`` are in the order in which the user gave them. A setting has no rules after a statement such as ``CHANGE
    REPLICATION FILTER REPLICATE_DO_DB = ()``. ``active_since`` is an aware datetime in UTC. ``counter`` is the number
    of events that have matched the rules since ``active_since``. In the global filter ``counter`` is always 0.
    """

    kind: BaseRuleKind
    rules: tuple[Rule, ...]
    configured_by: ConfiguredBy
    active_since: datetime
    counter: int = 0

    @property
    def rule_text(self) -> str:
        """The column FILTER_RULE: the rules with commas between them and without quotes, as the server prints them."""
        if self.kind.is_rewrite:
            return ",".join(f"({source},{target})" for source, target in (rule.pair for rule in self.rules))
        values = [rule.value for rule in self.rules]
        # The server keeps do-table and ignore-table rules in a hash, so its status tables show each such rule once.
        is_hashed = self.kind.form is ValueForm.TABLE
        return ",".join(sorted(set(values), key=encode_name) if is_hashed else values)


class CurrentFilter(NamedTuple):
    """A copy of the filter rules of one replication channel, taken at one moment, with the rule language (semantics).

    Classic rules are those of ``--replicate-*``, which the servers have. Effective rules (DO, IGNORE, REWRITE) are
    dumpfilter's own, and match only the tables that an event changes, never the default database.
    """

    rules: tuple[Rule, ...]
    """The rules, kind by kind, in the order of the table ``replication_applier_filters``."""
    semantics: FilterSemantics
    """EFFECTIVE when the channel has a DO, IGNORE or REWRITE rule, else CLASSIC."""


_Settings = dict[BaseRuleKind, Setting]


class ChannelFilters:
    """The global filter and the filters of all channels of a slave. Any thread may call any method.

    When the slave starts, it calls :meth:`startup` for every option, then :meth:`finish_startup` with the channels that
    exist. Later :meth:`add_channel` and :meth:`remove_channel` add and remove channels, and :meth:`change` changes
    filters. Channel names compare without case, as in a server's statements. Only :meth:`startup` needs lower-case
    names. All methods with a channel's name except :meth:`startup` and :meth:`add_channel` raise
    :class:`UnknownChannel` for a missing channel.

    >>> from dumpfilter.filter.rules import RuleKind
    >>> filters = ChannelFilters()
    >>> filters.startup(None, [make_rule(RuleKind.DO_DB, "db1")])
    >>> filters.startup("ch1", [make_rule(RuleKind.DO_DB, "db2")])
    >>> filters.finish_startup(["", "ch1"])
    []
    >>> [(name, setting.rule_text) for name in filters.channels for setting in filters.settings(name)]
    [('', 'db1'), ('ch1', 'db2')]
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Make a set of filters without rules and channels. ``clock`` returns the time as an aware datetime in UTC."""
        self._clock = clock
        self._lock = threading.Lock()
        self._filters: dict[str | None, _Settings] = {None: {}}
        """The rules of each channel's filter. None stands for the global filter."""
        self._startup: dict[str, _Settings] = {}

    def startup(self, channel: str | None, rules: Iterable[Rule]) -> None:
        """Add the rules of a start-up option to the filter of a channel, which need not exist yet.

        With ``channel`` None the option names no channel, and the rules belong to the global filter. Raises OptionError
        for a rule with bytes that are not UTF-8, which neither a message to a master nor JSON can hold.
        """
        rules = list(rules)
        for rule in rules:
            if (shown := escape_invalid_utf8(rule.value)) != rule.value:
                raise OptionError(
                    f"--{rule.kind.option}={shown}: the value is not UTF-8; save the option file as UTF-8"
                )
        with self._lock:
            now = self._clock()
            settings = self._filters[None] if channel is None else self._startup.setdefault(channel, {})
            by = ConfiguredBy.STARTUP_OPTIONS if channel is None else ConfiguredBy.STARTUP_OPTIONS_FOR_CHANNEL
            # As in the server, the column ACTIVE_SINCE of a kind of rule is the time of the last option of that kind.
            for rule in rules:
                old = settings.get(rule.kind)
                settings[rule.kind] = Setting(rule.kind, (*(old.rules if old else ()), rule), by, now)

    def finish_startup(self, existing: Iterable[str]) -> list[str]:
        """Make the filters of the replication channels in ``existing`` from the options that :meth:`startup` has
        collected, and discard the options of other channels.

        Return the server's warnings in the server's order, one for each channel whose options were discarded. Raises
        OptionError, and changes nothing, when a filter would have both classic rules (``--replicate-*``) and effective
        rules (DO, IGNORE, REWRITE).
        """
        with self._lock:
            _check_semantics(None, self._filters[None])
            copied = self._copied()
            made: dict[str | None, _Settings]
            made = {name: copied | self._startup.get(name, {}) for name in map(fold_channel, existing)}
            for name, settings in made.items():
                _check_semantics(name, settings)
            given = sorted((name for name, settings in self._startup.items() if settings), key=encode_name)
            self._startup.clear()
            self._filters |= made
            disallowed = [name for name in given if name in GROUP_REPLICATION_CHANNELS]
            missing = [name for name in given if name not in made and name not in GROUP_REPLICATION_CHANNELS]
            return [
                *(
                    _discarded(f"group replication channel '{_shown(name)}' which is disallowed")
                    for name in disallowed
                ),
                *(_discarded(f"channel '{_shown(name)}' which does not exist") for name in missing),
            ]

    def add_channel(self, name: str) -> None:
        """Add a channel, whose filter begins as a copy of the global filter's rules. A channel that exists already
        keeps its rules.

        The copied rules keep the column CONFIGURED_BY, and their column ACTIVE_SINCE is the present time. Raises
        OptionError for a channel of group replication.
        """
        name = _allowed(name)
        with self._lock:
            if name not in self._filters:
                self._filters[name] = self._copied()

    def _copied(self) -> _Settings:
        """Return a copy of the global filter's rules for a new channel, as a mapping from each kind of rule to its
        :class:`Setting` (the rules, CONFIGURED_BY and the present time). Kinds that a statement has emptied are left
        out.
        """
        now = self._clock()
        return {
            kind: replace(setting, active_since=now)
            for kind, setting in self._filters[None].items()
            if setting.rules
        }

    def remove_channel(self, name: str) -> None:
        """Remove a channel and its filter (RESET REPLICA ALL). The global filter stays. Raises UnknownChannel for a
        missing channel.
        """
        with self._lock:
            self._of(name)
            del self._filters[fold_channel(name)]

    def change(self, clauses: Sequence[FilterClause], channel: str | None) -> None:
        """Carry out CHANGE REPLICATION FILTER with the given ``clauses``. The last clause of a kind of rule replaces
        all rules of that kind.

        With ``channel`` None the statement changes the filters of all channels and the global filter. Errors change
        nothing: UnknownChannel, and OptionError for a bad rule or a channel of group replication. OptionError is also
        raised if a filter would have both classic (``--replicate-*``) and effective (DO, IGNORE, REWRITE) rules.
        """
        rules = {
            clause.kind: tuple(make_rule(clause.kind, rule.value) for rule in clause.rules)
            for clause in clauses
        }
        by, changed = ConfiguredBy.CHANGE_REPLICATION_FILTER, self._filters
        folded = None if channel is None else _allowed(channel)
        with self._lock:
            if channel is not None:
                by = ConfiguredBy.CHANGE_REPLICATION_FILTER_FOR_CHANNEL
                changed = {folded: self._of(channel)}
            now = self._clock()
            settings: _Settings = {kind: Setting(kind, given, by, now) for kind, given in rules.items()}
            for name, before in changed.items():
                _check_semantics(name, before | settings)
            for before in changed.values():
                before |= settings

    def current(self, channel: str) -> CurrentFilter:
        """Return a consistent copy of the rules of a replication channel, for example to send the rules to the master.
        Raises UnknownChannel for a missing channel.
        """
        with self._lock:
            rules = tuple(rule for setting in _ordered(self._of(channel)) for rule in setting.rules)
            effective = any(isinstance(rule.kind, EffectiveRuleKind) for rule in rules)
            semantics = FilterSemantics.EFFECTIVE if effective else FilterSemantics.CLASSIC
            return CurrentFilter(rules, semantics)

    def settings(self, channel: str | None) -> list[Setting]:
        """Return the channel's rows of ``performance_schema.replication_applier_filters``, one for each kind of rule
        that an option or a statement has set, in the server's order. Raises UnknownChannel for a missing channel.

        With None, return the rows of ``replication_applier_global_filters``, which are the global filter's.
        """
        with self._lock:
            return _ordered(self._filters[None] if channel is None else self._of(channel))

    def count(self, channel: str, hits: Mapping[BaseRuleKind, int]) -> None:
        """Add the numbers in ``hits`` to the column COUNTER of a channel's filter. ``hits`` maps each kind of rule to
        the number of events that matched a rule of this kind.

        Hits of kinds without rules are ignored. Raises UnknownChannel for a missing channel.
        """
        with self._lock:
            settings = self._of(channel)
            for kind, number in hits.items():
                if (setting := settings.get(kind)) is not None:
                    settings[kind] = replace(setting, counter=setting.counter + number)

    @property
    def channels(self) -> list[str]:
        """The names of all channels, sorted by bytes as in the server's status tables."""
        with self._lock:
            return sorted((name for name in self._filters if name is not None), key=encode_name)

    def _of(self, channel: str) -> _Settings:
        try:
            return self._filters[fold_channel(channel)]
        except KeyError:
            raise UnknownChannel(channel) from None


def _allowed(channel: str) -> str:
    """Return a channel's name in lower case. Raises OptionError for a channel of group replication, which cannot have
    filters.
    """
    name = fold_channel(channel)
    if name in GROUP_REPLICATION_CHANNELS:
        raise OptionError(f"channel {name!r} is group replication's and cannot have filters")
    return name


def fold_channel(name: str) -> str:
    """Return a channel's name in lower case, as a server stores it. Accents are kept, and the number of characters does
    not change.
    """
    return lower_case(name)


def is_channel_name(name: str) -> bool:
    """Tell whether a server allows this lower-case channel name.

    A name has at most 64 characters and no space at the end. Otherwise a server reports error 3076.
    """
    return len(name) <= MAX_CHANNEL_NAME and name == name.rstrip(" ")


def split_channel(value: str) -> tuple[str | None, str]:
    """Split the value of a ``--replicate-*`` option into a channel's lower-case name and a rule, at the first colon.

    Without a colon the rule belongs to the global filter, and the returned channel is None.

    >>> split_channel("Ch1:Db2"), split_channel(":db1"), split_channel("db1"), split_channel("ch1:a:b")
    (('ch1', 'Db2'), ('', 'db1'), (None, 'db1'), ('ch1', 'a:b'))
    """
    channel, colon, rule = value.partition(":")
    return (fold_channel(channel), rule) if colon else (None, value)


def _ordered(settings: _Settings) -> list[Setting]:
    return [settings[kind] for kind in SLAVE_RULE_KINDS if kind in settings]


def _check_semantics(channel: str | None, settings: Mapping[BaseRuleKind, Setting]) -> None:
    kinds = [kind for kind in SLAVE_RULE_KINDS if kind in settings and settings[kind].rules]
    classic = [f"--{kind.option}" for kind in kinds if not isinstance(kind, EffectiveRuleKind)]
    effective = [f"--{kind.option}" for kind in kinds if isinstance(kind, EffectiveRuleKind)]
    if classic and effective:
        place = "the global filter" if channel is None else f"the filter of channel {channel!r}"
        raise OptionError(
            f"{place}: rules of both semantics: classic {', '.join(classic)}; effective {', '.join(effective)}"
        )


def _discarded(where: str) -> str:
    return (
        f"There are per-channel replication filter(s) configured for {where}. "
        "The filter(s) have been discarded."
    )


def _shown(name: str) -> str:
    return encode_name(name)[:_SHOWN_BYTES].decode("utf-8", "ignore")
