"""What is under way when a connection breaks off, or can't be made: the blocking and the asyncio driver."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from hatwisted.aio.driver import AioDriver
from hatwisted.blocking.connection import Connection
from hatwisted.blocking.driver import BlockingDriver
from hatwisted.blocking.links import Links
from hatwisted.blocking.settings import ClusterSettings
from hatwisted.clientcore.errors import CallFailed, ConnectFailed, ConnectionGone
from hatwisted.clientcore.tasks import Waiter, gather
from hatwisted.wire.remoting import RemotingCommand, RemotingReceiver, encode_command

CALLS = 8


class BreakingServer:
    """Closes its first connection when it has read something, and answers every request on the later ones."""

    def __init__(self) -> None:
        self.connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(30)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                if self.connections == 1:
                    connection.recv(1 << 16)
                else:
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        receiver = RemotingReceiver()
        while data := connection.recv(1 << 16):
            for request in receiver.receive(data):
                connection.sendall(encode_command(RemotingCommand(0, request.opaque, 1)))


@pytest.fixture
def server() -> Iterator[BreakingServer]:
    server = BreakingServer()
    yield server
    server.close()


def request() -> RemotingCommand:
    return RemotingCommand(105)


def driver_for(address: str) -> BlockingDriver:
    return BlockingDriver(Links(ClusterSettings(name_servers=(address,), answer_timeout=30)))


def test_every_call_of_a_broken_connection_fails_and_says_so(server: BreakingServer) -> None:
    connection = Connection(
        server.address, ClusterSettings(name_servers=(server.address,), answer_timeout=30)
    )
    numbers = [connection.post(request()) for _ in range(2)]
    for number in numbers:
        with pytest.raises(ConnectionGone):
            connection.answer(number)
    with pytest.raises(ConnectionGone, match="is closed"):
        connection.post(request())


def test_calls_that_are_tried_again_at_once_get_their_answers_on_a_new_connection(
    server: BreakingServer,
) -> None:
    with driver_for(server.address) as driver:

        async def twice() -> int:
            try:
                answer = await driver.call(server.address, request(), 30)
            except CallFailed:
                answer = await driver.call(server.address, request(), 30)
            return answer.code

        async def all_at_once() -> list[int]:
            return await gather([twice() for _ in range(CALLS)])

        assert driver.run(all_at_once()) == [0] * CALLS
    assert server.connections == 2


@pytest.mark.parametrize("host", ["my..host", "x" * 64 + ".example"])
def test_a_host_that_cannot_be_a_name_fails_as_a_call(host: str) -> None:
    address = f"{host}:9876"
    with driver_for(address) as driver, pytest.raises(ConnectFailed, match="not a host name"):
        driver.ask(address, request())


@pytest.mark.parametrize("host", ["my..host", "x" * 64 + ".example"])
def test_such_a_host_fails_at_each_call_on_asyncio_as_well(host: str) -> None:
    async def program() -> None:
        driver = AioDriver()
        for _ in range(2):
            with pytest.raises(ConnectFailed, match="not a host name"):
                await as_future(driver.call(f"{host}:9876", request(), 30))

    asyncio.run(asyncio.wait_for(program(), 20))


def as_future(waiter: Waiter[RemotingCommand]) -> asyncio.Future[RemotingCommand]:
    """What asyncio can wait for."""
    future = asyncio.get_running_loop().create_future()

    def settle(waiter: Waiter[RemotingCommand]) -> None:
        try:
            future.set_result(waiter.result())
        except Exception as error:
            future.set_exception(error)

    waiter.when_done(settle)
    return future
