"""The tables [[replica]] of the master's configuration."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.base.security.passwords import StoredPassword, native_hash
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.master.config import ConnectBack, MasterConfig, OnDrift, load_config

HASH = native_hash("secret")
Load = Callable[[str], MasterConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str) -> MasterConfig:
        file = tmp_path / "master.toml"
        file.write_text(text.replace("PASSWORD_FILE", str(tmp_path / "password")))
        (tmp_path / "password").write_text("back\n")
        return load_config(file)

    return load


def table(more: str = "", *, user: str = "r", password: str = f'password_hash = "{HASH}"') -> str:
    return f'[[replica]]\nuser = "{user}"\n{password}\n{more}\n'


def test_rules(load: Load) -> None:
    text = table('rules = ["replicate-do-db=shop", "replicate-rewrite-db=a->b"]')
    (entry,) = load(text).replicas
    assert (entry.key, entry.user, entry.stored) == ("replica[1]", "r", StoredPassword.parse(HASH))
    assert isinstance(entry.filter, Filter)
    assert list(map(str, entry.filter.rules)) == ["--replicate-do-db=shop", "--replicate-rewrite-db=a->b"]
    assert not entry.adopt
    (entry,) = load(table('semantics = "effective"\nrules = ["ignore=hr.%"]')).replicas
    assert isinstance(entry.filter, EffectiveFilter)
    (entry,) = load(table("rules = []")).replicas
    assert entry.filter is not None
    assert not entry.filter.is_on


def test_conditions(load: Load) -> None:
    (entry,) = load(
        table('rules = []\nchannel = "Ch1"\nserver_ids = [7, 8]\nnetworks = ["10.0.0.0/8", "::1"]')
    ).replicas
    assert entry.channel == "ch1"
    assert entry.server_ids == {7, 8}
    assert entry.networks == (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128"))


def test_adopt(load: Load, tmp_path: Path) -> None:
    adopted, checked, verified = load(
        table('adopt = true\nconnect = { user = "d", password_file = "PASSWORD_FILE" }')
        + table(
            'rules = []\non_drift = "refuse"\nconnect = { user = "d", password_file = "PASSWORD_FILE", host = "h", '
            'port = 3307, tls = "disabled", timeout = 2 }',
            user="s",
        )
        + table(
            'rules = []\nconnect = { user = "d", password_file = "PASSWORD_FILE", tls_ca = "PASSWORD_FILE" }',
            user="t",
        )
    ).replicas
    assert adopted.adopt
    assert adopted.connect == ConnectBack(user="d", password_file=tmp_path / "password")
    assert adopted.connect.client_tls.mode is TlsMode.REQUIRED
    assert checked.on_drift is OnDrift.REFUSE
    assert checked.connect == ConnectBack(
        user="d", password_file=tmp_path / "password", host="h", port=3307, tls=TlsMode.DISABLED, timeout=2
    )
    assert verified.connect is not None
    assert verified.connect.client_tls.mode is TlsMode.VERIFY_IDENTITY


def test_one_password_of_a_user(load: Load) -> None:
    text = table("rules = []\nserver_ids = [7]", password="") + table("rules = []")
    assert len({entry.stored for entry in load(text).replicas}) == 1
    with pytest.raises(OptionError, match=r"replica\[2\].password_hash: user 'r' has another password"):
        load(
            table("rules = []")
            + table("rules = []\nserver_ids = [7]", password=f'password_hash = "{native_hash("other")}"')
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (table("rules = []", password=""), r"replica\[1\].password_hash: is missing"),
        (
            table("rules = []", password=f'password = "x"\npassword_hash = "{HASH}"'),
            "stands beside password: keep one",
        ),
        (table("rules = []", password='password_hash = "*123"'), "password_hash: is no hash"),
        (table("rules = []", password='password = "x"'), "other users of this machine can read"),
        (table(), "rules: is missing"),
        (table('rules = ["replicate-ignore-table=x"]'), "rules: --replicate-ignore-table=x: could not add"),
        (table('rules = ["do=a.b"]'), "rules: unknown option 'do' in classic"),
        (table('rules = []\nchannel = "a "'), "no space at the end"),
        (table("adopt = true"), "connect: is missing"),
        (table("adopt = true\nrules = []"), "stands beside adopt = true"),
        (table('rules = []\nconnect = { user = "d" }'), "connect.password_file: is missing"),
        (
            table('rules = []\nconnect = { user = "d", password_file = "/nowhere/p" }'),
            "connect.password_file: /nowhere/p cannot be read",
        ),
        (
            table(
                'rules = []\nconnect = { user = "d", password_file = "PASSWORD_FILE", tls = "disabled", '
                'tls_ca = "PASSWORD_FILE" }'
            ),
            "tls_ca: stands beside",
        ),
        (table('rules = []\non_drift = "refuse"'), "on_drift: needs connect"),
        (
            table(
                'adopt = true\nconnect = { user = "d", password_file = "PASSWORD_FILE" }\non_drift = "warn"'
            ),
            "on_drift: stands beside adopt",
        ),
        (
            table("rules = []") * 2,
            r"replica\[2\]: any replica: no replica can reach this table.* earlier one: replica\[1\] \(any replica\); "
            "write this table before it, or remove it",
        ),
        (
            table("rules = []\nserver_ids = [7, 8, 9]")
            + table('rules = []\nchannel = "a"\nserver_ids = [7, 8]'),
            r"replica\[2\]: channel='a', server_ids=7,8: .*: replica\[1\] \(server_ids=7,8,9\);",
        ),
        (
            table('rules = []\nconnect = { user = "d", password_file = "PASSWORD_FILE", tls = "preferred" }'),
            "connect.tls",
        ),
    ],
    ids=lambda value: "" if value.startswith("[[") else value,
)
def test_an_unusable_table_is_an_error(load: Load, text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        load(text)


def test_a_filter_can_be_imposed_on_a_user_of_replicas(load: Load) -> None:
    text = (
        table("rules = []") + '[[imposed]]\nname = "x"\nusers = ["r"]\nrules = ["replicate-ignore-db=hr"]\n'
    )
    assert load(text).imposed[0].users == {"r"}
