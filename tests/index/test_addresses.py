"""Opening files and sets on this machine and on an object store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dumpfilter.base.errors import BinlogCorrupt, BinlogMissing, BinlogTruncated, ConnectionLost, OptionError
from dumpfilter.binlog.events import GTID_INDEX_MAGIC
from dumpfilter.binlog.workload import generate
from dumpfilter.index.addresses import file_name, matching
from dumpfilter.index.fileset import BinlogFile, BinlogSet, open_file
from dumpfilter.index.index_file import MAX_INDEX
from dumpfilter.spark_jobs.options import BLOCK_SIZE
from dumpfilter.spark_jobs.ranges import FilePart, index_file
from tests.spark_jobs.s3_server import ObjectStore, object_store
from tests.support import DATA

MIXED = DATA / "oracle" / "mariadb-mixed"
FILES = sorted(MIXED.glob("bin.0*"))


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as made:
        for path in [*FILES, MIXED / "bin.index"]:
            made.objects[f"bucket/logs of/{path.name}"] = path.read_bytes()
        made.objects["bucket/logs of/oracle.json"] = b"{ nothing }"
        yield made


@pytest.fixture
def query(store: ObjectStore) -> str:
    return f"?endpoint_override={store.endpoint}&scheme=http&region=us-east-1&anonymous=true"


def find_set(source: str | list[str]) -> list[str]:
    return BinlogSet.open(source).addresses


# On this machine.


def test_a_file_uri_is_its_path(tmp_path: Path) -> None:
    odd = tmp_path / "a b%"
    odd.mkdir()
    for path in [*FILES, MIXED / "bin.index"]:
        (odd / path.name).write_bytes(path.read_bytes())
    wanted = [str(odd / path.name) for path in FILES]
    directory = odd.as_uri()
    assert directory.startswith("file:///")
    for source in (directory, directory.replace("file://", "file:"), f"{directory}/bin.index", str(odd)):
        assert find_set(source) == wanted
    uris = [f"{directory}/{path.name}" for path in FILES[:2]]
    assert find_set(uris) == wanted[:2]
    with open_file(uris[0]) as file:
        assert (file.name, file.size) == (FILES[0].name, FILES[0].stat().st_size)


def test_a_pattern_is_the_binlogs_that_match(tmp_path: Path) -> None:
    for name in (
        "b.999999",
        "b.1000000",
        "b.000007",
        "b.index",
        "b.000007.idx",
        "b.state",
        "b.²",
        "a.000001",
    ):
        (tmp_path / name).write_bytes(FILES[0].read_bytes())
    wanted = [str(tmp_path / name) for name in ("b.000007", "b.999999", "b.1000000")]
    for pattern in (
        f"{tmp_path}/b.*",
        f"{tmp_path.as_uri()}/b.*",
        [f"{tmp_path}/b.0*", f"{tmp_path}/b.[19]*"],
    ):
        assert find_set(pattern) == wanted
    for pattern in ("c.*", "b.0*8", "none/b.*"):
        with pytest.raises(BinlogMissing, match="no binlog file matches this pattern"):
            find_set(f"{tmp_path}/{pattern}")
    odd = tmp_path / "b*.000001"
    odd.write_bytes(FILES[0].read_bytes())
    assert find_set(str(odd)) == [str(odd)]


def test_the_files_of_a_pattern_are_ordered_by_name_and_then_by_number(tmp_path: Path) -> None:
    names = ["a.000009", "a.1000000", "b.000007", "b.000010"]
    for name in reversed(names):
        (tmp_path / name).touch()
    assert matching(f"{tmp_path}/*") == [f"{tmp_path}/{name}" for name in names]


def test_a_pattern_on_an_object_store(query: str) -> None:
    found = find_set(f"s3a://bucket/logs of/bin.0000*{query}")
    assert found == [f"s3a://bucket/logs of/{path.name}{query}" for path in FILES]
    with pytest.raises(BinlogMissing, match="no binlog file matches"):
        find_set(f"s3a://bucket/logs of/other.*{query}")


def test_a_host_in_a_file_uri_is_refused() -> None:
    with pytest.raises(OptionError, match="three slashes"):
        find_set("file://there/bin.index")


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("file://[x/bin.index", "Invalid IPv6 URL"),
        ("hdfs://[x/bin.0*", "Invalid IPv6 URL"),
        ("s3a://", "the name of the bucket or of a directory is empty"),
        ("s3a:/bucket/bin.index", "the name of the bucket or of a directory is empty"),
        ("s3a://bucket//bin.index", "the name of the bucket or of a directory is empty"),
        ("s3a://bucket/\udcff.index", "can't encode character"),
        ("s3a://bucket/bin.index?scheme=ftp", "Invalid S3 connection scheme 'ftp'"),
    ],
)
def test_a_uri_with_a_syntax_error_is_refused(uri: str, what: str) -> None:
    with pytest.raises(OptionError, match=f"{what}.*; write a path, or an address that begins with"):
        find_set(uri)


def test_no_file_at_all() -> None:
    with pytest.raises(BinlogMissing, match="no binlog is named"):
        find_set([])


# On an object store.


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("what", ["", "/", "/bin.index"])
def test_a_set_is_found_there(store: ObjectStore, query: str, scheme: str, what: str) -> None:
    base = f"{scheme}://bucket/logs of"
    found = find_set(f"{base}{what}{query}")
    assert found == [f"{base}/{path.name}{query}" for path in FILES]
    assert [file_name(path) for path in found] == [path.name for path in FILES]
    assert find_set(found[1]) == [found[1]]
    assert find_set(found[:2]) == found[:2]


def test_an_index_of_a_moved_set(store: ObjectStore, query: str) -> None:
    store.objects["bucket/moved/bin.index"] = b"/var/lib/mysql/bin.000001\n./bin.000002\n\n"
    assert find_set(f"s3://bucket/moved/bin.index{query}") == [
        f"s3://bucket/moved/bin.00000{n}{query}" for n in (1, 2)
    ]


def test_an_index_there_that_is_too_large(store: ObjectStore, query: str) -> None:
    store.objects["bucket/large/bin.index"] = b"./bin.000001\n" * (MAX_INDEX // 13 + 1)
    with pytest.raises(BinlogCorrupt, match=f"more than the limit of {MAX_INDEX} bytes"):
        find_set(f"s3://bucket/large/bin.index{query}")


def test_a_file_there_reads_as_one_here(store: ObjectStore, query: str) -> None:
    path = FILES[0]
    with open_file(f"s3a://bucket/logs of/{path.name}{query}") as there, BinlogFile(path) as here:
        assert there.name == here.name
        assert there.size == here.size
        assert there.in_use == here.in_use
        assert there.modified > 0
        assert there.format_description == here.format_description
        for offset, length in (
            (0, 4),
            (21, 1),
            (100, 5000),
            (here.size - 7, 100),
            (here.size, 5),
            (1 << 30, 1),
        ):
            assert there.read_up_to(offset, length) == here.read_up_to(offset, length)
            buffers = [np.zeros(length, np.uint8) for _ in range(2)]
            assert there.read_into(buffers[0], offset) == here.read_into(buffers[1], offset)
            assert np.array_equal(*buffers)


def test_the_index_pass_reads_whole_blocks(store: ObjectStore, query: str, tmp_path: Path) -> None:
    path = generate(tmp_path, 20 << 20).files[0]
    store.objects["bucket/large/bin.000001"] = path.read_bytes()
    store.reads.clear()
    uri = f"s3a://bucket/large/bin.000001{query}"
    there = index_file(FilePart(0, uri, last=True))
    here = index_file(FilePart(0, str(path), last=True))
    assert there.bounds == here.bounds
    assert there.end == here.end == path.stat().st_size
    blocks = -(-path.stat().st_size // BLOCK_SIZE)
    # A transaction that a block cuts is read again with the next block.
    assert len(store.reads) <= blocks + 3, store.reads
    assert sum(last - first + 1 for _, first, last in store.reads) < 1.2 * path.stat().st_size


def test_what_is_not_there(store: ObjectStore, query: str) -> None:
    with pytest.raises(BinlogMissing, match="no such file"):
        find_set(f"s3://bucket/nowhere{query}")
    with pytest.raises(BinlogMissing, match="cannot read the index"):
        find_set(f"s3://bucket/nowhere.index{query}")
    with pytest.raises(BinlogMissing, match="no such file"):
        find_set([f"s3://bucket/{name}{query}" for name in ("one", "two")])
    with pytest.raises(BinlogMissing, match="no such file"):
        open_file(f"s3://bucket/logs of/bin.000009{query}")
    store.objects["bucket/empty/x"] = store.objects["bucket/two/a.index"] = b""
    store.objects["bucket/two/b.index"] = b""
    with pytest.raises(BinlogMissing, match=r"no index file"):
        find_set(f"s3://bucket/empty{query}")
    with pytest.raises(BinlogMissing, match=r"several index files \(a.index, b.index\)"):
        find_set(f"s3://bucket/two{query}")
    with pytest.raises(BinlogMissing, match="names no binlog"):
        find_set(f"s3://bucket/two/a.index{query}")


def test_what_is_no_binlog_there(store: ObjectStore, query: str) -> None:
    with pytest.raises(BinlogCorrupt, match=r"oracle.json: at 0: not a binlog"):
        _ = open_file(f"s3://bucket/logs of/oracle.json{query}").name
    store.objects["bucket/short"] = FILES[0].read_bytes()[:60]
    with pytest.raises(BinlogTruncated, match="short: at 4: "):
        open_file(f"s3://bucket/short{query}")


def test_a_store_that_goes_away_is_an_error_with_the_place(query: str) -> None:
    with object_store() as gone:
        gone.objects["bucket/bin.000001"] = (DATA / "oracle" / "mariadb-row" / "bin.000001").read_bytes()
        uri = f"s3://bucket/bin.000001?endpoint_override={gone.endpoint}&scheme=http&region=us-east-1&anonymous=true"
        file = open_file(uri)
        del gone.objects["bucket/bin.000001"]
        with pytest.raises(ConnectionLost, match=r"at 70000: cannot be read"):
            file.read(70_000, 100)
        file.close()


def test_a_uri_that_cannot_be_understood() -> None:
    with pytest.raises(OptionError, match="not retries"):
        find_set("s3://bucket/bin.index?retries=3")
    with pytest.raises(OptionError, match="nosuch"):
        find_set("nosuch://bucket/bin.index")
    with pytest.raises(BinlogMissing, match="hdfs: needs libhdfs"):
        find_set("hdfs://127.0.0.1:1/bin.index")


def test_the_environment_says_where_the_store_is(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{store.endpoint}",
        "AWS_ACCESS_KEY_ID": "someone",
        "AWS_SECRET_ACCESS_KEY": "something",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    assert len(find_set("s3a://bucket/logs of")) == len(FILES)


@pytest.mark.parametrize("place", ["{0}/{1}", "file://{0}/{1}"])
def test_what_a_server_keeps_beside_is_passed_over(tmp_path: Path, place: str) -> None:
    shutil.copytree(MIXED, tmp_path, dirs_exist_ok=True)
    for name in ("bin.000001.idx", "bin.state"):
        (tmp_path / name).write_bytes(GTID_INDEX_MAGIC)
    named = sorted(path.name for path in tmp_path.glob("bin.*"))
    assert find_set([place.format(tmp_path, name) for name in named]) == find_set(str(tmp_path))


def test_a_local_set_is_found_as_ever() -> None:
    binlogs = BinlogSet.open(MIXED)
    assert find_set(str(MIXED)) == [str(binlogs.path(name).resolve()) for name in binlogs.names]
