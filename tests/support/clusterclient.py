"""A producer over all masters and a consumer that falls back on slaves, as small as they can be.

They do what RocketMQ's clients do when a broker dies (B115, B118, B120, B122), but only when told to, without
timers and threads: a test says `send`, `poll`, `commit` and sees which broker served it. Like everything here
they share no line with hatwisted's own client.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from dataclasses import dataclass, field

from testbed.remotingclient import RemotingClient, RemotingFailure, SendResult
from testbed.storefiles import StoredMessage, read_records

TBW102 = "TBW102"
QUERY_CONSUMER_OFFSET, UPDATE_CONSUMER_OFFSET = 14, 15
FOUND, PULL_NOT_FOUND, NO_OFFSET, STORED = 0, 19, 22, (0, 10, 11, 12)
TRIES = 3


@dataclass(frozen=True)
class Route:
    """What a name server says of a topic: ports by broker name and id, write queues by broker name."""

    ports: dict[str, dict[int, int]]
    queues: dict[str, int]

    def writable(self) -> list[tuple[str, int]]:
        """(broker name, queue id) of all masters, brokers interleaved (B115)."""
        masters = sorted(name for name in self.queues if 0 in self.ports.get(name, {}))
        pairs = [(name, queue) for name in masters for queue in range(self.queues[name])]
        return sorted(pairs, key=lambda pair: (pair[1], pair[0]))

    def port_to_read(self, name: str) -> int:
        """The master's, or any slave's when it is gone."""
        ports = self.ports[name]
        return ports[min(ports)]


def route_of(namesrv_port: int, topic: str) -> Route | None:
    """None when the name server knows no such topic."""
    with RemotingClient("127.0.0.1", namesrv_port) as client:
        answer = client.route(topic)
    if answer.code:
        return None
    table = answer.json()
    brokers, queues = table["brokerDatas"], table["queueDatas"]
    assert isinstance(brokers, list) and isinstance(queues, list)
    ports = {
        each["brokerName"]: {int(i): int(at.rpartition(":")[2]) for i, at in each["brokerAddrs"].items()}
        for each in brokers
    }
    return Route(ports, {each["brokerName"]: each["writeQueueNums"] for each in queues})


class SendFailed(Exception):
    """No broker took the message in TRIES tries."""


class NoRoute(RemotingFailure):
    """The name server doesn't know the topic (any more)."""


@dataclass
class RoutedProducer:
    """Round-robin over the queues of all masters, the next try at another broker (B116)."""

    namesrv_port: int
    topic: str
    turn: itertools.count[int] = field(default_factory=itertools.count)

    def send(self, body: bytes, **properties: str) -> tuple[str, SendResult]:
        """Broker name and its answer."""
        route = route_of(self.namesrv_port, self.topic) or route_of(self.namesrv_port, TBW102)
        if route is None:
            raise SendFailed("the name server knows no broker")
        failed: set[str] = set()
        story: list[object] = []
        for _ in range(TRIES):
            choice = [pair for pair in route.writable() if pair[0] not in failed]
            if not choice:
                break
            name, queue = choice[next(self.turn) % len(choice)]
            try:
                with RemotingClient("127.0.0.1", route.ports[name][0]) as client:
                    result = client.send(self.topic, body, queue, properties)
            except (OSError, RemotingFailure) as failure:
                story.append(failure)
            else:
                if result.code in STORED:
                    return name, result
                story.append((name, result.code, result.remark))
            failed.add(name)
        raise SendFailed(f"{self.topic}: {story} {route}")


@dataclass
class RoutedConsumer:
    """One member of a group that owns every queue. `positions` are its own, as in a living client; a queue
    that it sees for the first time begins at the group's committed offset, or at 0."""

    namesrv_port: int
    topic: str
    group: str
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    served_by: set[int] = field(default_factory=set)  # ports that gave messages to the last poll

    def poll(self) -> list[StoredMessage]:
        """All that can be read now, from every broker name."""
        route = route_of(self.namesrv_port, self.topic)
        if route is None:
            raise NoRoute(self.topic)
        self.served_by = set()
        found: list[StoredMessage] = []
        for name, count in route.queues.items():
            port = route.port_to_read(name)
            with RemotingClient("127.0.0.1", port) as client:
                for queue in range(count):
                    found += self._read(client, port, name, queue)
        return found

    def poll_until(self, count: int, seconds: float) -> list[StoredMessage]:
        """Poll until that many messages have come."""
        found: list[StoredMessage] = []
        deadline = time.monotonic() + seconds
        while len(found) < count:
            with contextlib.suppress(OSError, RemotingFailure):  # a broker is dying or starting
                found += self.poll()
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages in {seconds:g} s"
            time.sleep(0.05)
        return found

    def commit(self) -> None:
        """Positions to whoever serves the queues now (B122)."""
        route = route_of(self.namesrv_port, self.topic)
        assert route is not None
        for (name, queue), offset in self.positions.items():
            fields = self._fields(queue) | {"commitOffset": str(offset)}
            with RemotingClient("127.0.0.1", route.port_to_read(name)) as client:
                client.call(UPDATE_CONSUMER_OFFSET, fields).expect(0)

    def committed(self, port: int, queue: int) -> int | None:
        """What the broker on that port holds for the group."""
        with RemotingClient("127.0.0.1", port) as client:
            answer = client.call(QUERY_CONSUMER_OFFSET, self._fields(queue)).expect(0, NO_OFFSET)
        return int(answer.ext["offset"]) if answer.code == 0 else None

    def _read(self, client: RemotingClient, port: int, name: str, queue: int) -> list[StoredMessage]:
        key = name, queue
        if key not in self.positions:
            answer = client.call(QUERY_CONSUMER_OFFSET, self._fields(queue)).expect(0, NO_OFFSET)
            self.positions[key] = int(answer.ext["offset"]) if answer.code == 0 else 0
        found: list[StoredMessage] = []
        while (answer := client.pull(self.topic, queue, self.positions[key])).code == FOUND:
            found += read_records(answer.body)
            self.positions[key] = int(answer.ext["nextBeginOffset"])
            self.served_by.add(port)
        answer.expect(PULL_NOT_FOUND)
        return found

    def _fields(self, queue: int) -> dict[str, str]:
        return {"consumerGroup": self.group, "topic": self.topic, "queueId": str(queue)}
