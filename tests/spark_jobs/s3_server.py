"""A small object store on 127.0.0.1 with the part of the S3 protocol that reads files: HeadObject, GetObject with a
range, ListObjectsV2."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class ObjectStore:
    """An object store. ``objects`` are by bucket and key; ``reads`` lists the ranges that were read, (path, first,
    last)."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"127.0.0.1:{port}"
        self.objects: dict[str, bytes] = {}
        self.reads: list[tuple[str, int, int]] = []


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run an object store."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            data = store.objects.get(unquote(urlsplit(self.path).path)[1:])
            if data is None:
                self._answer(404, b"")
            else:
                self._answer(200, data)

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            path = unquote(parts.path)[1:]
            if "list-type" in parse_qs(parts.query):
                self._answer(200, _listing(store, path.rstrip("/"), parse_qs(parts.query)), "application/xml")
            elif (data := store.objects.get(path)) is None:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", "application/xml")
            else:
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                first, last = (int(asked[1]), int(asked[2])) if asked else (0, len(data) - 1)
                store.reads.append((path, first, last))
                piece = data[first : last + 1]
                where = f"bytes {first}-{first + len(piece) - 1}/{len(data)}"
                self._answer(206 if asked else 200, piece, range=where)

        def _answer(
            self, status: int, body: bytes, kind: str = "application/octet-stream", range: str = ""
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", kind)
            self.send_header("Last-Modified", "Sat, 21 Nov 2026 00:00:00 GMT")
            self.send_header("ETag", '"1"')
            if range:
                self.send_header("Content-Range", range)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store = ObjectStore(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _listing(store: ObjectStore, bucket: str, query: dict[str, list[str]]) -> bytes:
    prefix = query.get("prefix", [""])[0]
    keys = sorted(
        path.removeprefix(f"{bucket}/") for path in store.objects if path.startswith(f"{bucket}/{prefix}")
    )
    found = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(store.objects[f'{bucket}/{key}'])}</Size>"
        "<LastModified>2026-11-21T00:00:00.000Z</LastModified></Contents>"
        for key in keys
    )
    return (
        '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(keys)}</KeyCount>"
        f"<IsTruncated>false</IsTruncated>{found}</ListBucketResult>"
    ).encode()
