"""The applier over recordings in the extended Query format (WL#40) gives the same results as over the originals."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import decode_statement_event, encode_query
from dumpfilter.dump.with_tables_info import announce_tables_info
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.applier import keyword
from dumpfilter.slave.targets import SummaryTarget
from tests.applying import apply_files
from tests.dump.test_with_tables_info import with_tables_info
from tests.strategies import DIALECTS, query_body
from tests.support import RECORDED_SETS, binlogs_in, recording_id


def applied(paths: list[Path]) -> tuple[dict[str, object], list[str]]:
    target, gtids = SummaryTarget(), []
    apply_files(paths, Filter(), target, on_complete=lambda gtid: gtids.append(str(gtid)))
    return target.state(), gtids


def test_no_keyword_is_seen_where_there_is_none() -> None:
    """The text of a statement begins at another offset in the extended format."""
    body = encode_query(query_body(b"IN", "BEG"), post_header_length=13, to=17)
    fd = announce_tables_info(FormatDescription.parse(DIALECTS[0].format_description()), True)
    assert keyword(decode_statement_event(EventType.QUERY, body, fd).text) is None
    begin = encode_query(query_body(b"BEGIN", "d"), post_header_length=13, to=17)
    assert keyword(decode_statement_event(EventType.QUERY, begin, fd).text) == "begin"


@pytest.mark.parametrize("folder", RECORDED_SETS, ids=recording_id)
@pytest.mark.every_recording
def test_extended_recordings(folder: Path, tmp_path: Path) -> None:
    source = BinlogSet.open(binlogs_in(folder))
    with_tables_info(source, tmp_path, "x")
    usual = applied([source.path(name) for name in source.names])
    assert usual[0] != SummaryTarget().state()
    assert applied(sorted(tmp_path.glob("x.0*"))) == usual
