"""Conversion between a slave's filter and the gRPC messages in which the slave sends the filter to the master."""

from __future__ import annotations

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import DEFAULT_NAMES, Family, NameCollation, NameRules
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.rules import (
    SLAVE_RULE_KINDS,
    BaseRuleKind,
    FilterSemantics,
    RuleKind,
    make_rule,
)
from dumpfilter.v1 import dumpfilter_pb2 as pb

_NAME_BY_KIND = {
    kind: kind.sql_name if isinstance(kind, RuleKind) else f"EFFECTIVE_{kind.sql_name}"
    for kind in SLAVE_RULE_KINDS
}
"""The name of each kind of rule in ``dumpfilter.proto``, for example ``REPLICATE_DO_DB``."""
_KIND_BY_NUMBER = {pb.RuleKind.Value(name): kind for kind, name in _NAME_BY_KIND.items()}
FAMILIES: dict[int, Family] = {pb.MYSQL: "mysql", pb.MARIADB: "mariadb"}


def family_to_proto(family: Family) -> pb.ServerFamily:
    """Return the number that stands for a server family (MySQL or MariaDB) in the gRPC messages of
    ``dumpfilter.proto``.
    """
    return pb.MARIADB if family == "mariadb" else pb.MYSQL


def names_from_proto(number: int, *, default: NameCollation = NameCollation.GENERAL_CI) -> NameCollation:
    """Return the collation for table names that has this number in ``dumpfilter.proto``.

    Return ``default`` when a message leaves the collation out. Raises OptionError for an unknown number, which a peer
    of another version may send.
    """
    if number == pb.NAME_COLLATION_UNSPECIFIED:
        return default
    if number not in pb.NameCollation.values():
        raise OptionError(f"name collation {number} is not known; master and slave need the same dumpfilter")
    return NameCollation[pb.NameCollation.Name(number)]


def filter_to_proto(rule_filter: ReplicationFilter) -> pb.FilterDefinition:
    """Return the gRPC message that describes a slave's filter: its rules, its semantics (classic or effective) and the
    settings by which it compares names.
    """
    return pb.FilterDefinition(
        rules=[pb.Rule(kind=_NAME_BY_KIND[rule.kind], value=rule.value) for rule in rule_filter.rules],
        lower_case_table_names=rule_filter.names.lower_case_table_names,
        family=family_to_proto(rule_filter.names.family),
        semantics=pb.EFFECTIVE if isinstance(rule_filter, EffectiveFilter) else pb.CLASSIC,
        names=rule_filter.names.collation.name,
    )


def filter_from_proto(
    definition: pb.FilterDefinition,
    *,
    default: NameRules = DEFAULT_NAMES,
) -> ReplicationFilter:
    """Return the filter that a slave's gRPC message describes.

    A message may leave out the server family and the collation for names. Then ``default`` gives them, which the master
    takes from the server that wrote the binlog.

    Raises OptionError that names the first bad rule. Raises OptionError also for semantics or a collation that this
    release does not know, and for rules that do not belong to the semantics.
    """
    if definition.semantics not in pb.FilterSemantics.values():
        raise OptionError(f"filter semantics {definition.semantics} are not known")
    rules = []
    for rule in definition.rules:
        kind = _KIND_BY_NUMBER.get(rule.kind)
        if kind is None:
            raise OptionError(f"rule {rule.value!r} has no known kind ({rule.kind})")
        rules.append(make_rule(kind, rule.value))
    return make_filter(
        FilterSemantics.EFFECTIVE if definition.semantics == pb.EFFECTIVE else FilterSemantics.CLASSIC,
        rules,
        names=NameRules(
            FAMILIES.get(definition.family, default.family),
            names_from_proto(definition.names, default=default.collation),
            definition.lower_case_table_names,
        ),
    )


def origin_to_proto(origin: OriginFilter | None) -> pb.OriginFilter:
    """Return the gRPC message that tells the master which server ids and MariaDB domain ids a slave does not want.

    The ids are in ascending order. None stands for a slave that wants the transactions of all servers and domains.
    """
    origin = origin or OriginFilter()
    return pb.OriginFilter(
        ignore_server_ids=sorted(origin.ignore_server_ids),
        do_domain_ids=sorted(origin.do_domain_ids),
        ignore_domain_ids=sorted(origin.ignore_domain_ids),
        own_server_id=origin.own_server_id,
    )


def origin_from_proto(origin: pb.OriginFilter) -> OriginFilter | None:
    """Return a slave's filter by server id and MariaDB domain id, from the slave's gRPC message.

    Return None when the slave wants the transactions of all servers and domains. Raises OptionError when the message
    has both wanted and unwanted domain ids.
    """
    wanted = OriginFilter(
        frozenset(origin.ignore_server_ids),
        frozenset(origin.do_domain_ids),
        frozenset(origin.ignore_domain_ids),
        origin.own_server_id,
    )
    return wanted if wanted.is_on else None


def kind_number(kind: BaseRuleKind) -> int:
    """Return the number that stands for a kind of rule, such as replicate-do-db, in the gRPC messages of
    ``dumpfilter.proto``.
    """
    return int(pb.RuleKind.Value(_NAME_BY_KIND[kind]))


def kind_from_number(number: int) -> BaseRuleKind | None:
    """Return the kind of rule, such as replicate-do-db, for its number in the gRPC messages of ``dumpfilter.proto``.
    None for an unknown number, which a peer of a later release may send.
    """
    return _KIND_BY_NUMBER.get(number)
