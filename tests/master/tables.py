"""Tables of a master's configuration, made from filters."""

from __future__ import annotations

from typing import Any

from dumpfilter.base.security.passwords import Sha2Crypt
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.master.config import Account, ImposedFilter


def imposed_table(name: str, rule_filter: ReplicationFilter, **conditions: Any) -> ImposedFilter:
    """Return an ``[[imposed]]`` with the rules of a filter."""
    effective = isinstance(rule_filter, EffectiveFilter)
    table = {
        "name": name,
        "semantics": FilterSemantics.EFFECTIVE if effective else FilterSemantics.CLASSIC,
        "rules": tuple(map(str, rule_filter.rules)),
        **conditions,
    }
    return ImposedFilter.model_validate(table, context={"names": rule_filter.names})


def hashed(name: str, password: str) -> Account:
    """Return a ``[[user]]`` with the hash of a password that caching_sha2_password stores."""
    return Account(name=name, password_hash=str(Sha2Crypt.of(password)))
