"""GTIDs and GTID sets of MySQL and MariaDB, as text and in the servers' binary forms.

The sets of both have the same methods (:class:`GtidSet`).
"""

from dumpfilter.binlog.gtid.base import GtidSet
from dumpfilter.binlog.gtid.gtids import (
    GNO_MAX,
    SEQ_NO_MAX,
    TAG_MAX_LENGTH,
    Gtid,
    Key,
    MariadbGtid,
    MysqlGtid,
    TsidKey,
    format_uuid,
    normalize_tag,
    parse_gtid,
    parse_uuid,
)
from dumpfilter.binlog.gtid.mariadb import MariadbGtidSet
from dumpfilter.binlog.gtid.mysql import MysqlGtidSet
from dumpfilter.binlog.gtid.parse import parse_gtid_set
from dumpfilter.binlog.gtid.wire import (
    FLAG_IGN_GTIDS,
    FLAG_UNTIL_REACHED,
    GtidList,
    decode_gtid_list,
    decode_previous_gtids,
    decode_tag,
    decode_varlen,
    encode_gtid_list,
    encode_previous_gtids,
    encode_varlen,
    previous_gtids_count,
)

__all__ = [
    "FLAG_IGN_GTIDS",
    "FLAG_UNTIL_REACHED",
    "GNO_MAX",
    "SEQ_NO_MAX",
    "TAG_MAX_LENGTH",
    "Gtid",
    "GtidList",
    "GtidSet",
    "Key",
    "MariadbGtid",
    "MariadbGtidSet",
    "MysqlGtid",
    "MysqlGtidSet",
    "TsidKey",
    "decode_gtid_list",
    "decode_previous_gtids",
    "decode_tag",
    "decode_varlen",
    "encode_gtid_list",
    "encode_previous_gtids",
    "encode_varlen",
    "format_uuid",
    "normalize_tag",
    "parse_gtid",
    "parse_gtid_set",
    "parse_uuid",
    "previous_gtids_count",
]
