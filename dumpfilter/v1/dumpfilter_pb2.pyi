from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FilterSemantics(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILTER_SEMANTICS_UNSPECIFIED: _ClassVar[FilterSemantics]
    CLASSIC: _ClassVar[FilterSemantics]
    EFFECTIVE: _ClassVar[FilterSemantics]

class RuleKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULE_KIND_UNSPECIFIED: _ClassVar[RuleKind]
    REPLICATE_DO_DB: _ClassVar[RuleKind]
    REPLICATE_IGNORE_DB: _ClassVar[RuleKind]
    REPLICATE_DO_TABLE: _ClassVar[RuleKind]
    REPLICATE_IGNORE_TABLE: _ClassVar[RuleKind]
    REPLICATE_WILD_DO_TABLE: _ClassVar[RuleKind]
    REPLICATE_WILD_IGNORE_TABLE: _ClassVar[RuleKind]
    REPLICATE_REWRITE_DB: _ClassVar[RuleKind]
    EFFECTIVE_DO: _ClassVar[RuleKind]
    EFFECTIVE_IGNORE: _ClassVar[RuleKind]
    EFFECTIVE_REWRITE: _ClassVar[RuleKind]

class ServerFamily(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_FAMILY_UNSPECIFIED: _ClassVar[ServerFamily]
    MYSQL: _ClassVar[ServerFamily]
    MARIADB: _ClassVar[ServerFamily]

class NameCollation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NAME_COLLATION_UNSPECIFIED: _ClassVar[NameCollation]
    GENERAL_CI: _ClassVar[NameCollation]
    GENERAL1400_AS_CI: _ClassVar[NameCollation]
FILTER_SEMANTICS_UNSPECIFIED: FilterSemantics
CLASSIC: FilterSemantics
EFFECTIVE: FilterSemantics
RULE_KIND_UNSPECIFIED: RuleKind
REPLICATE_DO_DB: RuleKind
REPLICATE_IGNORE_DB: RuleKind
REPLICATE_DO_TABLE: RuleKind
REPLICATE_IGNORE_TABLE: RuleKind
REPLICATE_WILD_DO_TABLE: RuleKind
REPLICATE_WILD_IGNORE_TABLE: RuleKind
REPLICATE_REWRITE_DB: RuleKind
EFFECTIVE_DO: RuleKind
EFFECTIVE_IGNORE: RuleKind
EFFECTIVE_REWRITE: RuleKind
SERVER_FAMILY_UNSPECIFIED: ServerFamily
MYSQL: ServerFamily
MARIADB: ServerFamily
NAME_COLLATION_UNSPECIFIED: NameCollation
GENERAL_CI: NameCollation
GENERAL1400_AS_CI: NameCollation

class Rule(_message.Message):
    __slots__ = ("kind", "value")
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    kind: RuleKind
    value: str
    def __init__(self, kind: _Optional[_Union[RuleKind, str]] = ..., value: _Optional[str] = ...) -> None: ...

class FilterDefinition(_message.Message):
    __slots__ = ("rules", "lower_case_table_names", "family", "semantics", "origin", "names")
    RULES_FIELD_NUMBER: _ClassVar[int]
    LOWER_CASE_TABLE_NAMES_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    SEMANTICS_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[Rule]
    lower_case_table_names: int
    family: ServerFamily
    semantics: FilterSemantics
    origin: OriginFilter
    names: NameCollation
    def __init__(self, rules: _Optional[_Iterable[_Union[Rule, _Mapping]]] = ..., lower_case_table_names: _Optional[int] = ..., family: _Optional[_Union[ServerFamily, str]] = ..., semantics: _Optional[_Union[FilterSemantics, str]] = ..., origin: _Optional[_Union[OriginFilter, _Mapping]] = ..., names: _Optional[_Union[NameCollation, str]] = ...) -> None: ...

class OriginFilter(_message.Message):
    __slots__ = ("ignore_server_ids", "do_domain_ids", "ignore_domain_ids", "own_server_id")
    IGNORE_SERVER_IDS_FIELD_NUMBER: _ClassVar[int]
    DO_DOMAIN_IDS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_DOMAIN_IDS_FIELD_NUMBER: _ClassVar[int]
    OWN_SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    ignore_server_ids: _containers.RepeatedScalarFieldContainer[int]
    do_domain_ids: _containers.RepeatedScalarFieldContainer[int]
    ignore_domain_ids: _containers.RepeatedScalarFieldContainer[int]
    own_server_id: int
    def __init__(self, ignore_server_ids: _Optional[_Iterable[int]] = ..., do_domain_ids: _Optional[_Iterable[int]] = ..., ignore_domain_ids: _Optional[_Iterable[int]] = ..., own_server_id: _Optional[int] = ...) -> None: ...

class ImposedFilter(_message.Message):
    __slots__ = ("name", "filter")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    filter: FilterDefinition
    def __init__(self, name: _Optional[str] = ..., filter: _Optional[_Union[FilterDefinition, _Mapping]] = ...) -> None: ...

class RegisterRequest(_message.Message):
    __slots__ = ("server_id", "uuid", "host", "port", "channel", "filter", "user", "password", "secret", "protocol", "program_version")
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_VERSION_FIELD_NUMBER: _ClassVar[int]
    server_id: int
    uuid: str
    host: str
    port: int
    channel: str
    filter: FilterDefinition
    user: str
    password: str
    secret: bytes
    protocol: int
    program_version: str
    def __init__(self, server_id: _Optional[int] = ..., uuid: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., channel: _Optional[str] = ..., filter: _Optional[_Union[FilterDefinition, _Mapping]] = ..., user: _Optional[str] = ..., password: _Optional[str] = ..., secret: _Optional[bytes] = ..., protocol: _Optional[int] = ..., program_version: _Optional[str] = ...) -> None: ...

class RegisterResponse(_message.Message):
    __slots__ = ("slave_id", "filter", "master_uuid", "family", "server_version", "imposed", "server_id", "protocol", "program_version", "filter_warnings")
    SLAVE_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MASTER_UUID_FIELD_NUMBER: _ClassVar[int]
    FAMILY_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    IMPOSED_FIELD_NUMBER: _ClassVar[int]
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_VERSION_FIELD_NUMBER: _ClassVar[int]
    FILTER_WARNINGS_FIELD_NUMBER: _ClassVar[int]
    slave_id: str
    filter: FilterDefinition
    master_uuid: str
    family: ServerFamily
    server_version: str
    imposed: _containers.RepeatedCompositeFieldContainer[ImposedFilter]
    server_id: int
    protocol: int
    program_version: str
    filter_warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slave_id: _Optional[str] = ..., filter: _Optional[_Union[FilterDefinition, _Mapping]] = ..., master_uuid: _Optional[str] = ..., family: _Optional[_Union[ServerFamily, str]] = ..., server_version: _Optional[str] = ..., imposed: _Optional[_Iterable[_Union[ImposedFilter, _Mapping]]] = ..., server_id: _Optional[int] = ..., protocol: _Optional[int] = ..., program_version: _Optional[str] = ..., filter_warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class UnregisterRequest(_message.Message):
    __slots__ = ("slave_id",)
    SLAVE_ID_FIELD_NUMBER: _ClassVar[int]
    slave_id: str
    def __init__(self, slave_id: _Optional[str] = ...) -> None: ...

class UnregisterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BinlogPosition(_message.Message):
    __slots__ = ("file", "position")
    FILE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    file: str
    position: int
    def __init__(self, file: _Optional[str] = ..., position: _Optional[int] = ...) -> None: ...

class DumpRequest(_message.Message):
    __slots__ = ("slave_id", "gtid_set", "once", "chunk_size", "heartbeat_period_ms", "other_filters_before", "except_gtids", "received_gtids", "net_timeout_ms", "line_rate", "kept_bytes", "kept_crc32")
    SLAVE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    GTID_SET_FIELD_NUMBER: _ClassVar[int]
    ONCE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_SIZE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FILTERS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXCEPT_GTIDS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_GTIDS_FIELD_NUMBER: _ClassVar[int]
    NET_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LINE_RATE_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEPT_CRC32_FIELD_NUMBER: _ClassVar[int]
    slave_id: str
    gtid_set: str
    once: bool
    chunk_size: int
    heartbeat_period_ms: int
    other_filters_before: bool
    except_gtids: str
    received_gtids: str
    net_timeout_ms: int
    line_rate: int
    kept_bytes: int
    kept_crc32: int
    def __init__(self, slave_id: _Optional[str] = ..., gtid_set: _Optional[str] = ..., once: _Optional[bool] = ..., chunk_size: _Optional[int] = ..., heartbeat_period_ms: _Optional[int] = ..., other_filters_before: _Optional[bool] = ..., except_gtids: _Optional[str] = ..., received_gtids: _Optional[str] = ..., net_timeout_ms: _Optional[int] = ..., line_rate: _Optional[int] = ..., kept_bytes: _Optional[int] = ..., kept_crc32: _Optional[int] = ..., **kwargs) -> None: ...

class AliveRequest(_message.Message):
    __slots__ = ("slave_id", "line_rate")
    SLAVE_ID_FIELD_NUMBER: _ClassVar[int]
    LINE_RATE_FIELD_NUMBER: _ClassVar[int]
    slave_id: str
    line_rate: int
    def __init__(self, slave_id: _Optional[str] = ..., line_rate: _Optional[int] = ...) -> None: ...

class AliveResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GtidRuns(_message.Message):
    __slots__ = ("uuid", "tag", "domain_id", "server_id", "runs")
    UUID_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    uuid: bytes
    tag: str
    domain_id: int
    server_id: int
    runs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, uuid: _Optional[bytes] = ..., tag: _Optional[str] = ..., domain_id: _Optional[int] = ..., server_id: _Optional[int] = ..., runs: _Optional[_Iterable[int]] = ...) -> None: ...

class GtidRunsSet(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[GtidRuns]
    def __init__(self, members: _Optional[_Iterable[_Union[GtidRuns, _Mapping]]] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("events_read", "events_sent", "events_dropped", "bytes_read", "bytes_sent", "bytes_dropped", "events_undecided", "transactions_read", "transactions_dropped")
    EVENTS_READ_FIELD_NUMBER: _ClassVar[int]
    EVENTS_SENT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    EVENTS_UNDECIDED_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_READ_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    events_read: int
    events_sent: int
    events_dropped: int
    bytes_read: int
    bytes_sent: int
    bytes_dropped: int
    events_undecided: int
    transactions_read: int
    transactions_dropped: int
    def __init__(self, events_read: _Optional[int] = ..., events_sent: _Optional[int] = ..., events_dropped: _Optional[int] = ..., bytes_read: _Optional[int] = ..., bytes_sent: _Optional[int] = ..., bytes_dropped: _Optional[int] = ..., events_undecided: _Optional[int] = ..., transactions_read: _Optional[int] = ..., transactions_dropped: _Optional[int] = ...) -> None: ...

class Gaps(_message.Message):
    __slots__ = ("source", "offset", "end", "runs", "run_source", "run_first", "run_length", "hits", "hit_kind", "hit_count")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    RUN_SOURCE_FIELD_NUMBER: _ClassVar[int]
    RUN_FIRST_FIELD_NUMBER: _ClassVar[int]
    RUN_LENGTH_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    HIT_KIND_FIELD_NUMBER: _ClassVar[int]
    HIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    source: _containers.RepeatedScalarFieldContainer[bytes]
    offset: _containers.RepeatedScalarFieldContainer[int]
    end: _containers.RepeatedScalarFieldContainer[int]
    runs: _containers.RepeatedScalarFieldContainer[int]
    run_source: _containers.RepeatedScalarFieldContainer[int]
    run_first: _containers.RepeatedScalarFieldContainer[int]
    run_length: _containers.RepeatedScalarFieldContainer[int]
    hits: _containers.RepeatedScalarFieldContainer[int]
    hit_kind: _containers.RepeatedScalarFieldContainer[RuleKind]
    hit_count: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, source: _Optional[_Iterable[bytes]] = ..., offset: _Optional[_Iterable[int]] = ..., end: _Optional[_Iterable[int]] = ..., runs: _Optional[_Iterable[int]] = ..., run_source: _Optional[_Iterable[int]] = ..., run_first: _Optional[_Iterable[int]] = ..., run_length: _Optional[_Iterable[int]] = ..., hits: _Optional[_Iterable[int]] = ..., hit_kind: _Optional[_Iterable[_Union[RuleKind, str]]] = ..., hit_count: _Optional[_Iterable[int]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("file", "events", "format_description", "start_position", "end_position", "resume_position", "resume_bytes", "completed", "counts", "heartbeat", "end_of_log", "end_of_file", "begin_position", "previous_file", "gaps", "crc32", "kept_bytes")
    FILE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    START_POSITION_FIELD_NUMBER: _ClassVar[int]
    END_POSITION_FIELD_NUMBER: _ClassVar[int]
    RESUME_POSITION_FIELD_NUMBER: _ClassVar[int]
    RESUME_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_OF_LOG_FIELD_NUMBER: _ClassVar[int]
    END_OF_FILE_FIELD_NUMBER: _ClassVar[int]
    BEGIN_POSITION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FILE_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_FIELD_NUMBER: _ClassVar[int]
    file: str
    events: bytes
    format_description: bytes
    start_position: int
    end_position: int
    resume_position: int
    resume_bytes: int
    completed: GtidRunsSet
    counts: Counts
    heartbeat: bool
    end_of_log: bool
    end_of_file: bool
    begin_position: int
    previous_file: str
    gaps: Gaps
    crc32: int
    kept_bytes: int
    def __init__(self, file: _Optional[str] = ..., events: _Optional[bytes] = ..., format_description: _Optional[bytes] = ..., start_position: _Optional[int] = ..., end_position: _Optional[int] = ..., resume_position: _Optional[int] = ..., resume_bytes: _Optional[int] = ..., completed: _Optional[_Union[GtidRunsSet, _Mapping]] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., heartbeat: _Optional[bool] = ..., end_of_log: _Optional[bool] = ..., end_of_file: _Optional[bool] = ..., begin_position: _Optional[int] = ..., previous_file: _Optional[str] = ..., gaps: _Optional[_Union[Gaps, _Mapping]] = ..., crc32: _Optional[int] = ..., kept_bytes: _Optional[int] = ...) -> None: ...

class Slave(_message.Message):
    __slots__ = ("server_id", "uuid", "host", "port", "channel", "filter_version", "dumping", "position", "counts", "registered_at", "last_seen_at", "user", "protocol", "program_version", "bytes_gtid", "filter_warnings", "state", "gone_since", "drained", "entry", "refusal", "lag_bytes", "lag_seconds")
    SERVER_ID_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    FILTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    DUMPING_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_VERSION_FIELD_NUMBER: _ClassVar[int]
    BYTES_GTID_FIELD_NUMBER: _ClassVar[int]
    FILTER_WARNINGS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GONE_SINCE_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    LAG_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAG_SECONDS_FIELD_NUMBER: _ClassVar[int]
    server_id: int
    uuid: str
    host: str
    port: int
    channel: str
    filter_version: int
    dumping: bool
    position: BinlogPosition
    counts: Counts
    registered_at: float
    last_seen_at: float
    user: str
    protocol: int
    program_version: str
    bytes_gtid: int
    filter_warnings: _containers.RepeatedScalarFieldContainer[str]
    state: str
    gone_since: str
    drained: bool
    entry: str
    refusal: str
    lag_bytes: int
    lag_seconds: float
    def __init__(self, server_id: _Optional[int] = ..., uuid: _Optional[str] = ..., host: _Optional[str] = ..., port: _Optional[int] = ..., channel: _Optional[str] = ..., filter_version: _Optional[int] = ..., dumping: _Optional[bool] = ..., position: _Optional[_Union[BinlogPosition, _Mapping]] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., registered_at: _Optional[float] = ..., last_seen_at: _Optional[float] = ..., user: _Optional[str] = ..., protocol: _Optional[int] = ..., program_version: _Optional[str] = ..., bytes_gtid: _Optional[int] = ..., filter_warnings: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., gone_since: _Optional[str] = ..., drained: _Optional[bool] = ..., entry: _Optional[str] = ..., refusal: _Optional[str] = ..., lag_bytes: _Optional[int] = ..., lag_seconds: _Optional[float] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("slave_id", "user", "password")
    SLAVE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_FIELD_NUMBER: _ClassVar[int]
    slave_id: str
    user: str
    password: str
    def __init__(self, slave_id: _Optional[str] = ..., user: _Optional[str] = ..., password: _Optional[str] = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("server_version", "files", "slaves")
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SLAVES_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    files: _containers.RepeatedCompositeFieldContainer[BinlogFile]
    slaves: _containers.RepeatedCompositeFieldContainer[Slave]
    def __init__(self, server_version: _Optional[str] = ..., files: _Optional[_Iterable[_Union[BinlogFile, _Mapping]]] = ..., slaves: _Optional[_Iterable[_Union[Slave, _Mapping]]] = ...) -> None: ...

class BinlogFile(_message.Message):
    __slots__ = ("name", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...
