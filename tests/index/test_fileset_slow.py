"""Tests of binlog sets: index files, files that grow, files that are damaged."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogError,
    BinlogMissing,
    BinlogTruncated,
    BinlogUnreadable,
    BinlogUnsupported,
    OptionError,
)
from dumpfilter.binlog.events import GTID_INDEX_MAGIC, EventType
from dumpfilter.binlog.gtid import MysqlGtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.writer import make_event
from dumpfilter.index import fileset
from dumpfilter.index.fileset import (
    BinlogFile,
    BinlogSet,
    RemoteFile,
    SegmentReader,
    ends_with_rotation,
    find_index,
    gtids_before,
)
from dumpfilter.index.index_file import read_index
from dumpfilter.index.subjects import Subjects
from dumpfilter.slave.relay_log import header_bytes
from tests.strategies import CHECKSUMMED, DIALECTS, MadeBinlog, _Builder, binlogs, query_body
from tests.support import DATA, MemoryFile, segments

RECORDED = DATA / "oracle" / "mysql-row"
EMPTY = b"\xfebin" + DIALECTS[0].format_description()


def _set(directory: Path, index: str, *names: str, data: bytes = EMPTY) -> Path:
    directory.mkdir(exist_ok=True, parents=True)
    for name in names:
        (directory / name).write_bytes(data)
    path = directory / "bin.index"
    path.write_bytes(index.encode())
    return path


def _events(data: bytes, segment_size: int = 1 << 16) -> list[tuple[int, int, bytes]]:
    """Return offset, role and bytes of each event that a scan of a file finds. Raises the errors of ``check_end``."""
    found = []
    for reader, segment in segments(data, segment_size):
        for offset, size, role in zip(
            segment.offset.tolist(), segment.size.tolist(), segment.role, strict=True
        ):
            start = offset - reader.data_offset
            found.append((offset, int(role), bytes(reader.data[start : start + size])))
    return found


class TestIndex:
    def test_relative_names(self, tmp_path: Path) -> None:
        index = _set(tmp_path, "./bin.000001\nbin.000002\n\n", "bin.000001", "bin.000002")
        for source in (index, tmp_path, str(tmp_path), [tmp_path / "bin.000001", tmp_path / "bin.000002"]):
            found = BinlogSet.open(source)
            assert found.names == ["bin.000001", "bin.000002"]
            assert found.path("bin.000002") == tmp_path / "bin.000002"
            assert found.after("bin.000001") == "bin.000002"
            assert found.after("bin.000002") is None
            assert found.after("bin.000099") is None
        assert BinlogSet.open(tmp_path / "bin.000001").names == ["bin.000001"]

    def test_files_that_a_server_keeps_beside(self, tmp_path: Path) -> None:
        _set(tmp_path, "bin.000001\nbin.000002\n", "bin.000001", "bin.000002")
        for name in ("bin.000001.idx", "bin.000002.idx", "bin.state"):
            (tmp_path / name).write_bytes(GTID_INDEX_MAGIC)
        for pattern in ("bin.0*", "bin.*"):
            found = BinlogSet.open(sorted(tmp_path.glob(pattern)))
            assert found.names == ["bin.000001", "bin.000002"]
        alone = BinlogSet.open([tmp_path / "bin.000001", tmp_path / "bin.000002.idx"])
        assert alone.names == ["bin.000001", "bin.000002.idx"]
        with pytest.raises(
            BinlogUnsupported, match=r"bin\.000002\.idx: at 0: a GTID index, .*: name the binlog"
        ):
            alone.file("bin.000002.idx")

    def test_absolute_names(self, tmp_path: Path) -> None:
        _set(tmp_path / "data", "", "bin.000001")
        index = _set(tmp_path / "elsewhere", f"{tmp_path}/data/bin.000001\n")
        assert BinlogSet.open(index).path("bin.000001") == tmp_path / "data" / "bin.000001"

    def test_a_moved_set(self, tmp_path: Path) -> None:
        index = _set(
            tmp_path, "/var/lib/mysql/bin.000001\r\n/var/lib/mysql/bin.000002\r\n", "bin.000001", "bin.000002"
        )
        found = BinlogSet.open(index)
        assert found.path("bin.000002") == tmp_path / "bin.000002"
        with found.file("bin.000002") as file:
            assert file.size == len(EMPTY)

    def test_without_a_newline_at_its_end(self, tmp_path: Path) -> None:
        index = _set(tmp_path, "./bin.000001\n./bin.000002", "bin.000001", "bin.000002")
        assert BinlogSet.open(index).names == ["bin.000001", "bin.000002"]
        index = _set(tmp_path, "./bin.000001", "bin.000001")
        assert BinlogSet.open(index).names == ["bin.000001"]

    def test_a_line_still_being_written(self, tmp_path: Path) -> None:
        names = ["bin.000001", "bin.000002"]
        index = _set(tmp_path, "./bin.000001\n", *names)
        found = BinlogSet.open(index)
        text = "./bin.000001\n./bin.000002\n"
        seen = []
        for end in range(len("./bin.000001\n"), len(text) + 1):
            index.write_text(text[:end])
            if found.refresh():
                seen.append(end)
            assert found.names in (names[:1], names)
        assert len(seen) == 1
        assert found.names == names

    def test_purged_and_added(self, tmp_path: Path) -> None:
        index = _set(tmp_path, "bin.000001\n", "bin.000001", "bin.000002")
        found = BinlogSet.open(index)
        assert not found.refresh()
        index.write_text("bin.000002\n")
        assert found.refresh()
        assert found.names == ["bin.000002"]
        with pytest.raises(BinlogMissing, match=r"it has bin[.]000002 to bin[.]000002") as raised:
            found.path("bin.000001")
        assert raised.value.file == "bin.000001"

    def test_a_slow_refresh_of_another_thread_does_not_bring_the_old_list_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A dump would end with the error that the new file is not there, at which slaves stop."""
        index = _set(tmp_path, "bin.000001\n", "bin.000001", "bin.000002")
        found = BinlogSet.open(index)
        has_read, may_go_on = threading.Event(), threading.Event()

        def read_slowly(path: Path) -> list[str]:
            lines = read_index(path)
            if not has_read.is_set():
                has_read.set()
                may_go_on.wait()
            return lines

        monkeypatch.setattr(fileset, "read_index", read_slowly)
        slow, quick = threading.Thread(target=found.refresh), threading.Thread(target=found.refresh)
        slow.start()
        has_read.wait()
        index.write_text("bin.000001\nbin.000002\n")
        quick.start()
        quick.join(0.2)
        may_go_on.set()
        for thread in (slow, quick):
            thread.join()
        assert found.names == ["bin.000001", "bin.000002"]

    def test_after_a_purged_file(self, tmp_path: Path) -> None:
        index = _set(tmp_path, "bin.000001\n", *(f"bin.00000{number}" for number in range(1, 5)))
        found = BinlogSet.open(index)
        index.write_text("bin.000003\nbin.000004\n")
        assert found.refresh()
        assert found.after("bin.000002") == "bin.000003"
        assert found.after("bin.000005") is None
        with pytest.raises(BinlogMissing, match=r"files between this file and bin[.]000003 were purged"):
            found.after("bin.000001")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        index = _set(tmp_path, "bin.000001\nbin.000002\n", "bin.000001")
        found = BinlogSet.open(index)
        with pytest.raises(BinlogMissing, match=r"bin\.000002.*not there"):
            list(found.segments(Subjects(), SourceNumbers()))
        with pytest.raises(BinlogMissing, match=r"bin\.000002"):
            found.file("bin.000002")

    def test_nothing_there(self, tmp_path: Path) -> None:
        for source in (
            tmp_path,
            tmp_path / "no",
            tmp_path / "no.index",
            [tmp_path / "no"],
            [],
            str(tmp_path / "x"),
        ):
            with pytest.raises(BinlogMissing):
                BinlogSet.open(source)
        for text in ("", "\n\n", "bin.00000"):
            with pytest.raises(BinlogMissing, match="names no binlog"):
                BinlogSet.open(_set(tmp_path, text))

    def test_several_index_files(self, tmp_path: Path) -> None:
        index = _set(tmp_path, "bin.000001\n", "bin.000001")
        (tmp_path / "relay.index").touch()
        with pytest.raises(BinlogMissing, match=r"bin\.index, relay\.index"):
            find_index(tmp_path)
        assert BinlogSet.open(index).names == ["bin.000001"]

    def test_a_directory_without_permissions(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _set(tmp_path, "bin.000001\n", "bin.000001")
        # Another user cannot pass the directories of a test's path.
        monkeypatch.chdir(tmp_path)
        tmp_path.chmod(0o711)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65534)
        else:
            tmp_path.chmod(0o300)
        try:
            with pytest.raises(BinlogUnreadable, match="Permission denied"):
                BinlogSet.open(".")
        finally:
            os.seteuid(me)
            tmp_path.chmod(0o700)

    def test_odd_names(self, tmp_path: Path) -> None:
        index = tmp_path / "bin.index"
        index.write_bytes(b"./b\xff n.000001\n")
        name = os.fsdecode(b"b\xff n.000001")
        (tmp_path / name).write_bytes(EMPTY)
        assert BinlogSet.open(index).names == [name]

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "bin.000001").mkdir()
        with pytest.raises(BinlogMissing, match="is a directory, not a file; name a binlog file"):
            BinlogFile(tmp_path / "bin.000001")


class TestFile:
    def test_reading(self, tmp_path: Path) -> None:
        path = RECORDED / "bin.000002"
        data = path.read_bytes()
        with BinlogFile(path) as file:
            assert file.size == len(data)
            assert file.read(10, 5) == data[10:15]
            assert file.read_up_to(len(data) - 1, 5) == data[-1:]
            with pytest.raises(BinlogTruncated, match="it has 1 of the 5 bytes"):
                file.read(len(data) - 1, 5)
            buffer = np.zeros(100, np.uint8)
            assert file.read_into(buffer, len(data) - 40) == 40
            assert buffer[:40].tobytes() == data[-40:]
            assert file.read_into(buffer, len(data)) == 0
            assert file.in_use == bool(data[21] & 1)

    @pytest.mark.parametrize(
        ("data", "error", "position"),
        [
            (b"", BinlogTruncated, 0),
            (b"\xfeb", BinlogTruncated, 0),
            (b"\xfebin", BinlogTruncated, 4),
            (b"\xfdbin" + EMPTY[4:], BinlogUnsupported, 0),
            (b"PK\3\4" + EMPTY[4:], BinlogCorrupt, 0),
            (EMPTY[:50], BinlogTruncated, 4),
            (EMPTY[:-1], BinlogTruncated, 4),
        ],
    )
    def test_not_a_binlog(self, tmp_path: Path, data: bytes, error: type, position: int) -> None:
        index = _set(tmp_path, "bin.000001\n", "bin.000001", data=data)
        with pytest.raises(error) as raised:
            list(BinlogSet.open(index).segments(Subjects(), SourceNumbers()))
        assert (raised.value.file, raised.value.position) == ("bin.000001", position)


class TestWholeSets:
    def test_all_segments(self) -> None:
        found = BinlogSet.open(RECORDED)
        ends: dict[str, int] = {}
        last: dict[str, bool] = {}
        for reader, segment in found.segments(Subjects(), SourceNumbers()):
            assert segment.start == ends.get(segment.file, reader.file.first_event)
            ends[segment.file] = segment.end
            last[segment.file] = ends_with_rotation(segment)
        assert ends == {name: found.path(name).stat().st_size for name in found.names}
        assert [last[name] for name in found.names[:-1]] == [True] * (len(found.names) - 1)

    def test_a_cut_file_before_the_last(self, tmp_path: Path) -> None:
        shutil.copytree(RECORDED, tmp_path, dirs_exist_ok=True)
        name = BinlogSet.open(tmp_path).names[0]
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[:-1])
        with pytest.raises(BinlogTruncated) as raised:
            list(BinlogSet.open(tmp_path).segments(Subjects(), SourceNumbers()))
        assert raised.value.file == name

    def test_previous_gtids(self, tmp_path: Path) -> None:
        before = "00000000-0000-0000-0000-000000000001:1-5"
        gtids = parse_gtid_set(before, "mysql")
        assert isinstance(gtids, MysqlGtidSet)
        builder = _Builder(DIALECTS[0])
        builder.add(EventType.PREVIOUS_GTIDS, encode_previous_gtids(gtids))
        good = bytes(builder.data)
        assert gtids_before(MemoryFile(good)).all == gtids
        for cut in range(len(EMPTY), len(good)):
            assert gtids_before(MemoryFile(good[:cut])).all is None
        for position in range(len(EMPTY) + 19, len(good)):
            damaged = bytearray(good)
            damaged[position] ^= 4
            with pytest.raises(BinlogCorrupt) as raised:
                gtids_before(MemoryFile(bytes(damaged)))
            assert (raised.value.file, raised.value.position) == ("made.000001", len(EMPTY))
        builder = _Builder(DIALECTS[0])
        builder.add(EventType.QUERY, query_body(b"DO 1"))
        assert gtids_before(MemoryFile(bytes(builder.data))).all is None
        assert gtids_before(MemoryFile(EMPTY)).all is None
        damaged = bytearray(builder.data)
        damaged[len(EMPTY) + 4] = EventType.STOP
        damaged[len(EMPTY) + 9 : len(EMPTY) + 13] = bytes(4)
        with pytest.raises(BinlogCorrupt, match="length"):
            gtids_before(MemoryFile(bytes(damaged)))

    def test_gtids_before_a_relay_log_file(self) -> None:
        """A slave names in the head of a relay log file what it had received before."""
        uuid = "00000000-0000-0000-0000-000000000001"
        origin = {"master_uuid": "m", "retrieved": f"{uuid}:1-3:7"}
        description = MemoryFile(EMPTY).format_description
        head = header_bytes("bin.000001", 900, description.raw, origin)
        assert str(gtids_before(MemoryFile(head)).all) == f"{uuid}:1-3:7"
        logged = parse_gtid_set(f"{uuid}:1-5", "mysql")
        assert isinstance(logged, MysqlGtidSet)
        event = make_event(
            EventType.PREVIOUS_GTIDS, encode_previous_gtids(logged), checksum=description.checksum
        )
        assert str(gtids_before(MemoryFile(head + event)).all) == f"{uuid}:1-5:7"
        found = gtids_before(MemoryFile(head + event))
        assert (str(found.logged), str(found.received)) == (f"{uuid}:1-5", f"{uuid}:1-3:7")
        nothing = header_bytes("bin.000001", 900, description.raw, {"master_uuid": "m", "retrieved": ""})
        assert gtids_before(MemoryFile(nothing)).all is None


def _with_begin() -> _Builder:
    """Return a file in use that ends inside a transaction."""
    builder = _Builder(DIALECTS[0], in_use=True)
    builder.add(EventType.QUERY, query_body(b"BEGIN"))
    return builder


class TestGrowing:
    @settings(deadline=None, max_examples=30)
    @given(
        made=binlogs(closed=False, max_transactions=3), segment_size=st.sampled_from([1, 100, 1000, 1 << 16])
    )
    def test_byte_by_byte(self, made: MadeBinlog, segment_size: int) -> None:
        """A reader of a growing file raises no error and returns each event once, when the event is complete."""
        file = MemoryFile(made.data[: made.first_event])
        reader = SegmentReader(file, Subjects(), SourceNumbers(), segment_size=segment_size)
        found = []
        for end in range(made.first_event, len(made.data) + 1):
            file.data = made.data[:end]
            while (segment := reader.next()) is not None:
                assert segment.end <= end
                for offset, size in zip(segment.offset.tolist(), segment.size.tolist(), strict=True):
                    start = offset - reader.data_offset
                    found.append((offset, bytes(reader.data[start : start + size])))
            reader.check_end(last=True)
        assert found == [(offset, raw) for offset, _, raw in _events(made.data)]
        assert not reader.in_transaction

    @settings(deadline=None, max_examples=50)
    @given(made=binlogs(closed=False), data=st.data(), segment_size=st.integers(1, 2000))
    def test_in_pieces(self, made: MadeBinlog, data: st.DataObject, segment_size: int) -> None:
        """A reader with a large buffer returns a transaction as soon as the file has all of it."""
        file = MemoryFile(made.data[: made.first_event])
        reader = SegmentReader(file, Subjects(), SourceNumbers(), segment_size=segment_size)
        roomy = SegmentReader(file, Subjects(), SourceNumbers())
        while len(file.data) < len(made.data):
            file.data = made.data[: data.draw(st.integers(len(file.data) + 1, len(made.data)))]
            for one in (reader, roomy):
                while one.next() is not None:
                    pass
                one.check_end(last=True)
            assert roomy.position == [b for b in made.boundaries if b <= len(file.data)][-1]
            assert not roomy.in_transaction
            assert reader.position >= roomy.position

    def test_the_flag_goes_when_the_file_is_closed(self, tmp_path: Path) -> None:
        path = tmp_path / "bin.000001"
        path.write_bytes(_with_begin().data)
        with BinlogFile(path) as file:
            reader = SegmentReader(file, Subjects(), SourceNumbers())
            assert file.in_use
            assert reader.next() is None
            reader.check_end(last=True)
            with pytest.raises(BinlogTruncated):
                reader.check_end(last=False)
            with open(path, "r+b") as again:
                again.seek(21)
                again.write(b"\0")
            assert not file.in_use
            with pytest.raises(BinlogTruncated, match="inside the transaction that begins here"):
                reader.check_end(last=True)

    def test_the_end_of_a_large_transaction_is_missing(self) -> None:
        file = MemoryFile(bytes(_with_begin().data))
        reader = SegmentReader(file, Subjects(), SourceNumbers(), segment_size=1)
        while reader.next() is not None:
            pass
        with pytest.raises(BinlogTruncated, match="inside the transaction that continues here"):
            reader.check_end(last=False)

    def test_a_server_may_end_the_file_while_a_reader_meets_its_end(self, tmp_path: Path) -> None:
        builder, path = _with_begin(), tmp_path / "bin.000001"
        path.write_bytes(builder.data)
        with BinlogFile(path) as file:
            reader = SegmentReader(file, Subjects(), SourceNumbers())
            assert reader.next() is None
            builder.add(EventType.QUERY, query_body(b"COMMIT"))
            builder.data[21] = 0
            path.write_bytes(builder.data)
            reader.check_end(last=True)
            assert reader.next() is not None
            assert reader.next() is None
            reader.check_end(last=True)


class TestDamage:
    @settings(deadline=None, max_examples=60)
    @given(made=binlogs(), data=st.data(), segment_size=st.sampled_from([1, 200, 1 << 16]))
    def test_cut_anywhere(self, made: MadeBinlog, data: st.DataObject, segment_size: int) -> None:
        cut = data.draw(st.integers(made.first_event, len(made.data)))
        whole = _events(made.data)
        if cut in made.boundaries:
            assert _events(made.data[:cut], segment_size) == [e for e in whole if e[0] < cut]
            return
        with pytest.raises(BinlogTruncated) as raised:
            _events(made.data[:cut], segment_size)
        assert raised.value.file == "made.000001"
        assert raised.value.position is not None
        assert [b for b in made.boundaries if b <= cut][-1] <= raised.value.position <= cut

    @settings(deadline=None, max_examples=100)
    @given(made=binlogs(CHECKSUMMED), data=st.data(), segment_size=st.sampled_from([1, 200, 1 << 16]))
    def test_flipped_bit(self, made: MadeBinlog, data: st.DataObject, segment_size: int) -> None:
        position = data.draw(st.integers(0, len(made.data) - 1))
        bit = data.draw(st.integers(0, 7))
        damaged = bytearray(made.data)
        damaged[position] ^= 1 << bit
        if (position, bit) == (21, 0):
            assert _events(bytes(damaged), segment_size) == _events(made.data)
            return
        with pytest.raises(BinlogError) as raised:
            _events(bytes(damaged), segment_size)
        assert raised.value.file == "made.000001"
        assert raised.value.position is not None
        assert raised.value.position <= position
        # The events before the error are those of the undamaged file.
        before = []
        whole = _events(made.data)
        with contextlib.suppress(BinlogError):
            for reader, segment in segments(bytes(damaged), segment_size):
                for offset, size in zip(segment.offset.tolist(), segment.size.tolist(), strict=True):
                    start = offset - reader.data_offset
                    before.append((offset, bytes(reader.data[start : start + size])))
        assert before == [(offset, raw) for offset, _, raw in whole[: len(before)]]

    def test_every_flipped_byte_of_a_recording(self) -> None:
        data = (DATA / "oracle" / "mysql-row" / "bin.000001").read_bytes()
        missed = []
        for position in range(0, len(data), max(len(data) // 400, 1)):
            damaged = bytearray(data)
            damaged[position] ^= 0xFF
            try:
                _events(bytes(damaged))
            except BinlogError as error:
                if error.file is None or error.position is None or error.position > position:
                    missed.append((position, error))
            else:
                missed.append((position, None))
        assert missed == [] or missed == [(21, None)]

    @pytest.mark.parametrize("size", [1 << 31, (1 << 32) - 1])
    def test_an_impossible_length(self, size: int) -> None:
        for in_use in (False, True):
            builder = _Builder(DIALECTS[0], in_use=in_use)
            at = len(builder.data)
            builder.add(EventType.XID, bytes(8))
            builder.data[at + 9 : at + 13] = size.to_bytes(4, "little")
            for segment_size in (1, 1 << 16):
                with pytest.raises(BinlogCorrupt, match="length") as raised:
                    _events(bytes(builder.data), segment_size)
                assert raised.value.position == at

    def test_a_file_cut_under_us(self, tmp_path: Path) -> None:
        path = tmp_path / "bin.000001"
        shutil.copy(RECORDED / "bin.000001", path)
        with BinlogFile(path) as file:
            reader = SegmentReader(file, Subjects(), SourceNumbers(), segment_size=1000)
            assert reader.next() is not None
            os.truncate(path, reader.position)
            assert reader.next() is None
            os.truncate(path, file.first_event)
            assert reader.next() is None


def test_bytes_that_are_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "bin.000001"
    shutil.copy(RECORDED / "bin.000001", path)
    with BinlogFile(path) as file:
        whole = file.read(0, file.size)
        buffer, fifty = np.zeros(100, np.uint8), np.array([[50, 100, 0]])
        if file.read_ranges(buffer, fifty, cached=True):
            assert buffer.tobytes() == whole[50:150]
        assert not file.read_ranges(buffer, np.array([[file.size - 99, 100, 0]]), cached=True)
        far = file.size - 10
        ranges = np.array([[50, 7, 20], [60, 5, 27], [far, 10, 3], [20, 1, 0]])
        room = np.zeros(32, np.uint8)
        assert file.read_ranges(room, ranges, cached=False)
        for offset, size, at in ranges.tolist():
            assert room[at : at + size].tobytes() == whole[offset : offset + size]
        assert not room[[1, 2, *range(13, 20)]].any()
        # Ranges outside of the buffer, or of the file, are not read.
        assert not file.read_ranges(room[:31], ranges, cached=False)
        assert not file.read_ranges(room, ranges - [0, 0, 1], cached=False)
        assert not file.read_ranges(room, np.array([[far, 11, 0]]), cached=False)
    with contextlib.closing(RemoteFile(path.as_uri())) as remote:
        assert not remote.read_ranges(buffer, fifty, cached=True)


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    """The later one would take the place of the other without a word."""
    for directory in ("a", "b"):
        _set(tmp_path / directory, "bin.000001\n", "bin.000001")
    files = [tmp_path / directory / "bin.000001" for directory in ("a", "b")]
    with pytest.raises(OptionError, match=r"two binlog files have the name bin.000001: .*/a/.* and .*/b/"):
        BinlogSet.open(files)
    assert BinlogSet.open([files[0], files[0]]).names == ["bin.000001"]
