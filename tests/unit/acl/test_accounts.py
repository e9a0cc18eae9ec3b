"""Who may do what: signatures, addresses, permissions, and what each request code asks for."""

from __future__ import annotations

import json

from hatwisted.acl.accounts import KNOWN_HOSTS, Accounts
from hatwisted.acl.aclfile import parse_acl_file
from hatwisted.clientcore.credentials import Credentials
from hatwisted.wire.codes import RequestCode
from hatwisted.wire.requestheader import UNIQUE_KEY_QUERY
from hatwisted.wire.signing import SIGNATURE, SecretKey, signed_bytes
from tests.unit.acl.accountscase import AccountsCase
from tests.unit.acl.files import ADMIN, SAMPLE, SECRET, USER, request

HEARTBEAT = {
    "clientID": "c",
    "consumerDataSet": [{"groupName": "groupC", "subscriptionDataSet": [{"topic": "topicC"}]}],
}


class SignatureTests(AccountsCase):
    def test_who_does_not_say_who_it_is_is_refused(self) -> None:
        self.assertEqual(
            self.refusal(request(RequestCode.GET_MAX_OFFSET, None)), "No accessKey is configured"
        )

    def test_who_is_not_known_is_refused(self) -> None:
        nobody = Credentials("nobody!", SECRET)
        self.assertEqual(self.refusal(request(30, nobody)), "No acl config for nobody!")

    def test_a_wrong_secret_is_refused(self) -> None:
        wrong = request(30, Credentials(USER.access_key, "wrong-secret"))
        self.assertEqual(self.refusal(wrong), "Check signature failed for accessKey=RocketMQ")

    def test_a_signature_covers_fields_and_body(self) -> None:
        for change in ("ext", "more", "body"):
            command = request(30, topic="topicC", queueId="1", body=b"body")
            self.assertIsNone(self.refusal(command))
            if change == "ext":
                command.ext["queueId"] = "2"
            elif change == "more":
                command.ext["offset"] = "2"
            else:
                command.body = b"bodY"
            self.assertIn("Check signature failed", str(self.refusal(command)))

    def test_a_token_is_part_of_it(self) -> None:
        command = request(30, Credentials(USER.access_key, SECRET, "token"))
        self.assertIsNone(self.refusal(command))
        command.ext["SecurityToken"] = "another"
        self.assertIsNotNone(self.refusal(command))

    def test_the_flag_of_a_query_may_be_signed_or_not(self) -> None:
        signed = request(RequestCode.QUERY_MESSAGE, topic="topicC", **{UNIQUE_KEY_QUERY: "true"})
        unsigned = request(RequestCode.QUERY_MESSAGE, topic="topicC")
        unsigned.ext[UNIQUE_KEY_QUERY] = "true"
        self.assertEqual([self.refusal(signed), self.refusal(unsigned)], [None, None])

    def test_a_signature_that_is_no_text_of_ours_is_just_wrong(self) -> None:
        for given in ("", "é", "\ud800", "A" * 100_000):
            command = request(30)
            command.ext[SIGNATURE] = given
            self.assertIn("Check signature failed", str(self.refusal(command)))

    def test_the_example_of_rfc_2202(self) -> None:
        self.assertEqual(SecretKey("\x0b" * 20).signature(b"Hi There"), "thcxhlUFcmTii8C2+zeMjvFGvgA=")
        self.assertEqual(signed_bytes({"b": "2", "a": "1", SIGNATURE: "no"}, b"3"), b"123")


class AddressTests(AccountsCase):
    def test_from_an_address_of_the_list_nobody_needs_an_account(self) -> None:
        stranger = request(RequestCode.DELETE_TOPIC_IN_BROKER, None)
        self.assertIsNone(self.refusal(stranger, "192.168.0.200"))
        self.assertIsNotNone(self.refusal(stranger, "192.168.2.200"))

    def test_an_accounts_own_address_stands_for_its_signature(self) -> None:
        unsigned = request(RequestCode.DELETE_TOPIC_IN_BROKER, None, AccessKey="rocketmq2")
        self.assertIsNone(self.refusal(unsigned, "192.168.1.5"))
        self.assertIsNotNone(self.refusal(unsigned))

    def test_addresses_that_are_remembered_are_bounded(self) -> None:
        for number in range(KNOWN_HOSTS + 10):
            self.refusal(request(30, None), f"10.0.{number >> 8}.{number & 255}")
        self.assertEqual(len(self.accounts._trusted), KNOWN_HOSTS)


class PermissionTests(AccountsCase):
    def allowed(self, code: int, body: bytes = b"", account: Credentials = USER, **ext: str) -> str | None:
        return self.refusal(request(code, account, body, **ext))

    def test_sends_need_pub(self) -> None:
        for code, topic, group in ((10, "topic", "group"), (310, "b", "a"), (320, "b", "a")):
            self.assertIsNone(self.allowed(code, **{topic: "topicB", group: "p"}))
            for denied in ("topicA", "topicC", "other"):
                refusal = self.allowed(code, **{topic: denied, group: "p"})
                self.assertEqual(refusal, f"No default permission for topic:{denied}")

    def test_a_send_to_a_retry_topic_is_its_groups(self) -> None:
        for code, topic, group in ((10, "topic", "group"), (310, "b", "a"), (320, "b", "a")):
            for sender in ("groupC", "CLIENT_INNER_PRODUCER", "groupA"):
                self.assertIsNone(self.allowed(code, **{topic: "%RETRY%groupC", group: sender}))
                refusal = self.allowed(code, **{topic: "%RETRY%groupA", group: sender})
                self.assertEqual(refusal, "No default permission for group:groupA")

    def test_pulls_need_sub_of_topic_and_group(self) -> None:
        for code in (
            RequestCode.PULL_MESSAGE,
            RequestCode.LITE_PULL_MESSAGE,
            RequestCode.UPDATE_CONSUMER_OFFSET,
        ):
            self.assertIsNone(self.allowed(code, topic="topicC", consumerGroup="groupC"))
            self.assertIsNone(self.allowed(code, topic="topicC", consumerGroup="of the default"))
            self.assertIsNone(self.allowed(code, topic="%RETRY%groupC", consumerGroup="groupC"))
            self.assertIn("topic:topicA", str(self.allowed(code, topic="topicA", consumerGroup="groupC")))
            self.assertIn("group:groupA", str(self.allowed(code, topic="topicC", consumerGroup="groupA")))

    def test_other_requests_of_a_group(self) -> None:
        for code, field in (
            (RequestCode.CONSUMER_SEND_MSG_BACK, "group"),
            (RequestCode.UNREGISTER_CLIENT, "consumerGroup"),
            (RequestCode.GET_CONSUMER_LIST_BY_GROUP, "consumerGroup"),
            (RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, "group"),
            (RequestCode.CLONE_GROUP_OFFSET, "destGroup"),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, "consumerGroup"),
        ):
            self.assertIsNone(self.allowed(code, **{field: "groupC"}), code)
            self.assertIn("group:groupA", str(self.allowed(code, **{field: "groupA"})), code)

    def test_heartbeats_and_locks_by_their_bodies(self) -> None:
        beat = json.dumps(HEARTBEAT)
        self.assertIsNone(self.allowed(RequestCode.HEART_BEAT, beat.encode()))
        for name in ("topicC", "groupC"):
            other = beat.replace(name, name[:5] + "A").encode()
            self.assertIn("No default permission", str(self.allowed(RequestCode.HEART_BEAT, other)))
        producer = json.dumps({"clientID": "c", "producerDataSet": [{"groupName": "groupA"}]}).encode()
        self.assertIsNone(self.allowed(RequestCode.HEART_BEAT, producer))
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            self.assertIsNone(self.allowed(code, b'{"consumerGroup":"groupC"}'))
            self.assertIn("group:groupA", str(self.allowed(code, b'{"consumerGroup":"groupA"}')))

    def test_B178_progress_that_a_slave_reports_is_that_of_groups_it_may_read_as(self) -> None:
        """Else every account could move all groups past messages that they haven't read."""
        for table in ("offsetTable", "resetTable"):
            body = json.dumps({"offsetTable": {}, table: {"topicC@groupC": {"0": 7}}})
            self.assertIsNone(self.allowed(RequestCode.JOIN_CONSUMER_OFFSET, body.encode()))
            for name in ("topic", "group"):
                other = body.replace(f"{name}C", f"{name}A").encode()
                self.assertIn(f"{name}:{name}A", str(self.allowed(RequestCode.JOIN_CONSUMER_OFFSET, other)))
                self.assertIsNone(self.allowed(RequestCode.JOIN_CONSUMER_OFFSET, other, account=ADMIN))

    def test_bodies_that_are_no_such_thing_need_nothing(self) -> None:
        for body in (b"", b"[]", b"7", b'{"consumerDataSet":7}', b'{"consumerDataSet":[7,{"groupName":7}]}'):
            self.assertIsNone(self.allowed(RequestCode.HEART_BEAT, body))
        for body in (b"", b"[]", b'{"offsetTable":7}', b'{"offsetTable":{}}'):
            self.assertIsNone(self.allowed(RequestCode.JOIN_CONSUMER_OFFSET, body))

    def test_a_transaction_ends_for_who_may_publish_where_it_says_where(self) -> None:
        self.assertIsNone(self.allowed(RequestCode.END_TRANSACTION, producerGroup="p"))
        self.assertIsNone(self.allowed(RequestCode.END_TRANSACTION, topic="topicB"))
        self.assertIsNotNone(self.allowed(RequestCode.END_TRANSACTION, topic="topicC"))

    def test_traces_are_everybodys(self) -> None:
        self.assertIsNone(self.allowed(310, b="RMQ_SYS_TRACE_TOPIC", a="p"))
        self.assertIsNotNone(self.allowed(11, topic="RMQ_SYS_TRACE_TOPIC", consumerGroup="groupC"))

    def test_an_administrator_may_do_anything_unless_its_entry_has_lists(self) -> None:
        self.assertIsNone(self.allowed(310, account=ADMIN, b="topicA", a="p"))
        listed = SAMPLE + b"  topicPerms:\n  - topicA=PUB\n"
        self.accounts = Accounts({"f": parse_acl_file(listed)})
        self.assertIsNone(self.allowed(310, account=ADMIN, b="topicA", a="p"))
        self.assertIsNotNone(self.allowed(310, account=ADMIN, b="topicB", a="p"))

    def test_one_account_in_two_files_is_refused(self) -> None:
        file = parse_acl_file(SAMPLE)
        error = self.assertRaises(ValueError, Accounts, {"a.yml": file, "b.yml": file})
        self.assertEqual(str(error), "account RocketMQ is in a.yml and in b.yml")
