"""How full a broker and a name server are is in their figures, and that they refused something because of it."""

from __future__ import annotations

import json
from typing import Any

from hatwisted.assembly.nameserver import build_name_server
from hatwisted.assembly.namesrvmonitoring import monitored_name_server
from hatwisted.broker.consumer import consumeroffset
from hatwisted.config.schema import NamesrvConfig
from hatwisted.timing import steps
from hatwisted.wire.codes import RequestCode, ResponseCode
from hatwisted.wire.remoting import encode_command
from tests.support.figures import Figures, page
from tests.support.memorynode import NAME_SERVER, Visitor
from tests.unit.acl.files import request
from tests.unit.assembly.test_refusedfigures import ADDRESS, FigureCase

NAMES = NAME_SERVER.rpartition(":")[0]


class FullFigures(FigureCase):
    def sent(self, code: int, body: object = None, **ext: str) -> int:
        data = b"" if body is None else json.dumps(body).encode()
        return int(
            self.nodes.result(self.nodes.client.call(ADDRESS, request(code, None, data, **ext), 15)).code
        )

    def test_what_clients_have_made_up(self) -> None:
        self.start(enable_property_filter=True)
        subscription = {
            "topic": "T",
            "subString": "a = 1",
            "expressionType": "SQL92",
            "subVersion": 1,
            "tagsSet": [],
            "codeSet": [],
        }
        group = {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        beat = json.dumps({"clientID": "c", "consumerDataSet": [group]}).encode()
        silent = Visitor()
        self.nodes.visit(ADDRESS, silent)
        silent.transport.write(encode_command(request(RequestCode.HEART_BEAT, None, beat)))  # type: ignore[union-attr]
        self.nodes.pass_time(1)
        queues = [{"topic": "T", "brokerName": "broker-a", "queueId": number} for number in range(3)]
        self.sent(RequestCode.LOCK_BATCH_MQ, {"consumerGroup": "g", "clientId": "c", "mqSet": queues})
        shown = self.figures()
        self.assertEqual(shown("hatwisted_memberships"), 1)
        self.assertEqual(shown("hatwisted_subscriptions"), 1)
        self.assertEqual(shown("hatwisted_queue_locks"), 3)
        self.assertEqual(shown("hatwisted_filter_characters"), len("g" + "T" + "a = 1"))
        self.assertEqual(shown("hatwisted_client_calls"), 0)

        asked = request(RequestCode.GET_CONSUMER_RUNNING_INFO, None, consumerGroup="g", clientId="c")
        waiting = self.nodes.client.call(ADDRESS, asked, 15)
        self.assertEqual(self.figures()("hatwisted_client_calls"), 1)
        self.nodes.result(waiting, 30)
        self.assertEqual(self.figures()("hatwisted_client_calls"), 0)

    def test_progress_that_there_is_no_room_for(self) -> None:
        self.start()
        self.assertEqual(self.nodes.send(ADDRESS), 0)
        self.patch(consumeroffset, "MAX_BYTES", 0)
        self.sent(
            RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="g", topic="T", queueId="0", commitOffset="0"
        )
        self.assertEqual(self.figures()("hatwisted_progress_left_out_total"), 1)

    def test_what_is_answered_that_it_is_busy(self) -> None:
        self.start()
        look = {"topic": "T", "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "9"}
        self.assertEqual(self.figures()("hatwisted_busy_answers_total"), 0)
        full = self.patch(steps, "MAX_WORKS", 0)
        self.assertEqual(self.sent(RequestCode.QUERY_MESSAGE, **look), ResponseCode.SYSTEM_BUSY)
        full.restore()
        self.assertEqual(self.figures()("hatwisted_busy_answers_total"), 1)

    def test_registrations_that_wait(self) -> None:
        parts = self.nodes.parts(NAMES)
        self.nodes.folder.mkdir(parents=True)
        config = NamesrvConfig(
            kv_config_path=str(self.nodes.folder / "kv.json"), metrics_port=5557, metrics_address=NAMES
        )
        names = build_name_server(config, parts)
        service: Any = monitored_name_server(names, parts)
        service.startService()
        self.addCleanup(self.nodes.stop, service)

        def shown() -> Figures:
            self.nodes.pass_time(2)
            return Figures(page(self.nodes, f"{NAMES}:5557", "/metrics")[1])

        self.assertEqual(shown()("hatwisted_namesrv_registration_bytes"), 0)
        names.large._held["10.0.0.66"] = 70_000
        self.assertEqual(shown()("hatwisted_namesrv_registration_bytes"), 70_000)
        self.assertEqual(shown()("hatwisted_busy_answers_total"), 0)
