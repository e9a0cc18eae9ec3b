"""PySpark's server of accumulators, once a JVM that it served is gone. No Spark: a connection is made here."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from threading import Event

import pytest
from pyspark import accumulators
from pyspark.accumulators import AccumulatorTCPServer

from hatwisted.pipeline.spark.sparksession import let_jvm_end

TOKEN = "token"
NO_UPDATES = struct.pack("!i", 0)
PATIENCE = 120.0


@pytest.fixture
def server() -> Iterator[AccumulatorTCPServer]:
    started = accumulators._start_update_server(TOKEN, False)
    assert isinstance(started, AccumulatorTCPServer)
    yield started
    started.shutdown()


def closed_after(server: AccumulatorTCPServer, sent: bytes, answers: int) -> None:
    """A JVM's connection that ends, and that the server has done with.

    - server: its other side
    - sent: before it ends
    - answers: bytes that are waited for
    """
    done, close = Event(), server.shutdown_request

    def shutdown_request(request: socket.socket) -> None:
        close(request)
        done.set()

    server.shutdown_request = shutdown_request  # type: ignore[assignment,method-assign]
    with socket.create_connection(server.server_address, PATIENCE) as jvm:  # type: ignore[arg-type]
        jvm.sendall(sent)
        while answers:
            answers -= len(jvm.recv(answers))
    assert done.wait(PATIENCE)


def test_the_end_of_a_jvm_is_no_error(
    server: AccumulatorTCPServer, capfd: pytest.CaptureFixture[str]
) -> None:
    let_jvm_end(server)
    let_jvm_end(server)
    closed_after(server, TOKEN.encode() + NO_UPDATES, 1)
    assert capfd.readouterr().err == ""


def test_what_is_an_error_is_told(server: AccumulatorTCPServer, capfd: pytest.CaptureFixture[str]) -> None:
    let_jvm_end(server)
    closed_after(server, b"other", 0)
    assert "ValueError" in capfd.readouterr().err
