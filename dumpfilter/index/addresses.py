"""The addresses of binlogs, on this machine or on a remote file system such as S3 or HDFS.

An address is a path or a URI. The URI's scheme is ``file:``, ``s3a:`` or ``s3:``, ``hdfs:``, or any other
scheme that pyarrow knows (``gs:``, ``abfss:``). Every process connects to S3 by itself, with the AWS variables of
its environment. The query of an S3 URI can set the endpoint, the protocol, the region and anonymous access, for
example ``?endpoint_override=127.0.0.1:9000&scheme=http&region=eu-west-1&anonymous=true``.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import posixpath
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from dumpfilter.base.errors import BinlogMissing, OptionError
from dumpfilter.index.index_file import MAX_INDEX, parse_index

_WILDCARD = re.compile(r"[*?[]")
_NUMBERED = re.compile(r"\.[0-9]+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_S3_OPTIONS = frozenset({"region", "scheme", "endpoint_override", "anonymous"})


def matching(path: str) -> list[str]:
    """Return the addresses of the binlog files that the pattern ``path`` matches, or the path itself if it is no
    pattern.

    A pattern is a path or URI whose last part has one of ``*?[``. In a URI the question mark begins the query, so it is
    no wildcard there. Only names that end in a number match, in the order of these numbers. Raises BinlogMissing when
    nothing matches, or when the directory cannot be read. Raises OptionError for a URI with a syntax error, and for an
    empty name, which would be the working directory.
    """
    if not path:
        raise OptionError(
            "the name of a binlog set is empty: name an index file, a directory or binlog files"
        )
    where, mark, query = path.partition("?") if is_uri(path) else (path, "", "")
    directory, slash, pattern = where.rpartition("/")
    if not _WILDCARD.search(pattern):
        return [path]
    local = local_path(where)
    if local is not None and os.path.exists(local):
        return [path]
    try:
        if local is None:
            names = _remote_names(f"{directory}{mark}{query}")
        else:
            names = os.listdir(os.path.dirname(local) or ".")
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise cannot_open(path, error) from None
    # The index file and other files that a server keeps beside its binlogs may match, too. They end in no number.
    numbered = [name for name in fnmatch.filter(names, pattern) if _NUMBERED.search(name)]
    if not numbered:
        raise BinlogMissing("no binlog file matches this pattern", file=path)
    numbered.sort(key=lambda name: (name.rpartition(".")[0], int(name.rpartition(".")[2])))
    return [f"{directory}{slash}{name}{mark}{query}" for name in numbered]


def _remote_names(directory: str) -> list[str]:
    from pyarrow.fs import FileSelector

    system, key = file_system(directory)
    return [str(info.base_name) for info in system.get_file_info(FileSelector(key.rstrip("/")))]


def file_name(path: str) -> str:
    """Return the name of a file without its directory, given the file's path or URI.

    >>> file_name("/var/lib/mysql/bin.000001"), file_name("s3a://bucket/logs/bin.000002?region=eu-west-1")
    ('bin.000001', 'bin.000002')
    """
    if is_uri(path):
        path = unquote(_split(path).path)
    return posixpath.basename(path)


def local_bytes(paths: Sequence[str]) -> int | None:
    """Return the total size of files in bytes, for a progress bar, given their paths or URIs. None if a file is remote
    or its size cannot be read.
    """
    total = 0
    for one in paths:
        path = local_path(one)
        if path is None:
            return None
        try:
            total += os.path.getsize(path)
        except OSError:  # The task that reads the file reports the error.
            return None
    return total


def not_here(uri: str) -> OptionError:
    """Return the error for a URI that was given where only a path on this machine is possible, such as an output
    directory. The caller raises this error.
    """
    return OptionError(
        f"{uri}: dumpfilter only reads binlogs at such an address; name a path on this machine, and copy the files "
        "from or to the address"
    )


def is_uri(path: str) -> bool:
    """Tell whether a string is a URI, and not a path."""
    return _SCHEME.match(path) is not None


def local_path(path: str) -> str | None:
    """Return the path on this machine for a path or a ``file:`` URI. None for a URI of a remote file system.

    Raises OptionError for a ``file:`` URI that names another machine, and for a URI with a syntax error.
    """
    if not is_uri(path):
        return path
    parts = _split(path)
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise OptionError(f"{path}: a file: URI has three slashes before its path, or one")
    return unquote(parts.path)


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise _wrong(uri, error) from None


def _wrong(uri: str, error: Exception) -> OptionError:
    cure = "write a path, or an address that begins with s3a://, hdfs://, file:// or mysql://"
    return OptionError(f"{uri}: {reason_of(error)}; {cure}")


def remote_size(uri: str) -> int:
    """Return the size of a file on a remote file system, bytes. Raises BinlogMissing when there is no such file or it
    cannot be looked up, and OptionError for a URI that cannot be used.
    """
    system, key = file_system(uri)
    try:
        found = system.get_file_info(key)
    except OSError as error:
        raise cannot_open(uri, error) from None
    if found.type.name != "File":
        raise BinlogMissing("no such file", file=uri)
    return int(found.size)


def remote_set(uri: str) -> list[str]:
    """Return the URIs of the files of a binlog set on a remote file system, in order.

    ``uri`` is the set's index file, a directory with one index file, or one binlog file. Raises BinlogMissing when a
    file is missing, and BinlogCorrupt for an index file that no server writes. Raises OptionError for a URI with a
    syntax error or a wrong option.
    """
    if not uri.partition("?")[0].endswith(".index"):
        system, key = file_system(uri)
        try:
            kind = system.get_file_info(key.rstrip("/")).type.name
            if kind == "File":
                return [uri]
            if kind != "Directory":
                raise BinlogMissing("no such file", file=uri)
            names = sorted(name for name in _remote_names(uri) if name.endswith(".index"))
            uri = _beside(uri, only_index(names, uri), within=True)
        except OSError as error:
            raise cannot_open(uri, error) from None
    system, key = file_system(uri)
    try:
        with system.open_input_stream(key) as stream:
            data = bytes(stream.read(MAX_INDEX + 1))
    except OSError as error:
        raise BinlogMissing(f"cannot read the index: {reason_of(error)}", file=uri) from None
    lines = parse_index(data, file=uri)
    # An absolute name in the index file is a path on the server that wrote the set. In a copy of the set on a remote
    # file system, the binlog stands beside the index file.
    found = [_beside(uri, _relative(line)) for line in lines if line]
    if not found:
        raise BinlogMissing("the index names no binlog", file=uri)
    return found


def only_index(names: Sequence[str], directory: str) -> str:
    """Return the only name in ``names``, the index files that a directory has. Raises BinlogMissing for none, and for
    more than one, because the right binlog set is then unknown.
    """
    if not names:
        raise BinlogMissing("no index file (*.index) in this directory", file=directory)
    if len(names) > 1:
        raise BinlogMissing(
            f"several index files ({', '.join(names)}): name the one that is meant", file=directory
        )
    return names[0]


def _relative(name: str) -> str:
    return posixpath.basename(name) if name.startswith("/") else posixpath.normpath(name)


def _beside(uri: str, name: str, *, within: bool = False) -> str:
    """Return the URI of the file ``name`` in the directory of the file ``uri``, with the same query (the part after
    ``?``).

    With ``within``, ``uri`` itself is the directory.
    """
    where, mark, query = uri.partition("?")
    directory = where.rstrip("/") if within else where.rpartition("/")[0]
    return f"{directory}/{name}{mark}{query}"


def file_system(uri: str) -> tuple[Any, str]:
    """Return pyarrow's file system object for a URI, and the path by which that object finds the file.

    Raises OptionError for a URI that pyarrow cannot use, and BinlogMissing if the file system of an ``hdfs:`` URI
    cannot be used, such as without Hadoop's libraries.
    """
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    parts = _split(uri)
    try:
        if parts.scheme not in ("s3", "s3a", "s3n"):
            system, path = FileSystem.from_uri(uri)
        else:
            # An S3 key may contain percent signs, so the URI's path is not percent-decoded. Hadoop does not decode it
            # either.
            path = f"{parts.netloc}{parts.path}"
            # S3's names are UTF-8. A name from the command line may have other bytes, which cannot be encoded.
            if b"" in path.encode().rstrip(b"/").split(b"/"):
                raise ValueError("the name of the bucket or of a directory is empty")
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
            system = _s3(parts.query, endpoint)
    except (OSError, ValueError, ArrowException) as error:
        if parts.scheme in ("hdfs", "viewfs"):
            cure = "hdfs: needs libhdfs, a Java runtime and Hadoop's class path on every machine (docs/spark-source.md)"
            raise BinlogMissing(f"{reason_of(error)}; {cure}", file=uri) from None
        raise _wrong(uri, error) from None
    return system, path


@functools.lru_cache(16)
def _s3(query: str, endpoint: str) -> Any:
    """Return pyarrow's file system for S3, which is cached because it holds connections.

    ``query`` is the query of an S3 URI, such as ``region=eu-west-1``. ``endpoint`` is the server's URL; an empty string
    for Amazon's servers. Raises OptionError for an unknown option in the query.
    """
    from pyarrow.fs import S3FileSystem

    given = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    unknown = given.keys() - _S3_OPTIONS
    if unknown:
        raise OptionError(
            f"an S3 URI's query has {', '.join(sorted(_S3_OPTIONS))}, not {', '.join(sorted(unknown))}"
        )
    if endpoint and "endpoint_override" not in given:
        parts = urlsplit(endpoint)
        given = {"endpoint_override": parts.netloc, "scheme": parts.scheme, **given}
    anonymous = given.pop("anonymous", "false") == "true"
    return S3FileSystem(anonymous=anonymous, **given)


def cannot_open(uri: str, error: OSError) -> BinlogMissing:
    """Return the BinlogMissing error to raise for a path or URI that the file system cannot open. ``error`` is the
    system's error.
    """
    if isinstance(error, FileNotFoundError):
        return BinlogMissing("no such file", file=uri)
    return BinlogMissing(f"cannot be opened: {reason_of(error)}", file=uri)


def reason_of(error: BaseException) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(error).split())
