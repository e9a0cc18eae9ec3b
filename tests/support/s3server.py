"""An S3 server of our own on a free port: `python -m tests.support.s3server` prints the port, and serves until its
standard input ends. Moto's, which keeps buckets in memory and takes conditional puts.

    with s3_server("lake") as environment:
        os.environ |= environment
"""

from __future__ import annotations

import http.client
import io
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.processgroup import process_group

HOST = "127.0.0.1"
REGION = "eu-central-1"


@contextmanager
def s3_server(bucket: str) -> Iterator[dict[str, str]]:
    """The environment in which everything that speaks S3 finds the server, which has this bucket."""
    command = (sys.executable, "-m", __name__)
    with process_group(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        connection = http.client.HTTPConnection(HOST, port)
        connection.request("PUT", f"/{bucket}", f"<a><LocationConstraint>{REGION}</LocationConstraint></a>")
        assert connection.getresponse().status == 200
        connection.close()
        yield {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def main() -> None:
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # S3's alone: the application of all services looks for each request through the folders of 180 of them.
    moto, one_at_a_time = create_backend_app("s3"), threading.Lock()

    def answer(environ: Any, start_response: Any) -> list[bytes]:
        # First all of it: who is stopped while it sends something mustn't hold others up.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if not environ.get("wsgi.input_terminated"):
            content = environ["wsgi.input"].read(length)
            if len(content) < length:
                start_response(
                    "400 Bad Request", []
                )  # to nobody: who sent it is gone, and S3 keeps nothing of it
                return []
            environ["wsgi.input"] = io.BytesIO(content)
        # Moto looks whether there is such an object, then puts it; a conditional put has to be one step.
        with one_at_a_time:
            return list(moto(environ, start_response))

    server = make_server(HOST, 0, answer, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
