"""`hatwisted conf`: samples that pass their own check, errors with line numbers, and every key explained."""

import json
from pathlib import Path

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from hatwisted.cli.main import main
from hatwisted.config.keydocs import all_keys, key_docs, nearest, without_effect


class ConfTests(SynchronousTestCase):
    def conf(self, *words, code=0):
        done = CliRunner(env={"NAMESRV_ADDR": "n:9876"}).invoke(main, ["conf", *words])
        self.assertEqual(done.exit_code, code, done.output)
        return done.output

    def file(self, text):
        path = Path(self.mktemp())
        path.write_text(text)
        return str(path)

    def test_every_sample_is_listed_printed_and_passes(self):
        names = [line.split()[0] for line in self.conf("sample").splitlines()]
        self.assertIn("2m-2s-sync/broker-a-s", names)
        for name in names:
            self.assertIn("no problems found", self.conf("check", self.file(self.conf("sample", name))), name)
        self.assertIn("there are: 2m-2s-async", self.conf("sample", "nope", code=2))

    def test_a_mistake_is_named_with_its_line(self):
        path = self.file("brokerName=a\nlistenPort=many\n")
        self.assertIn(f"error: {path}:2: listenPort: can't be 'many'", self.conf("check", path, code=1))
        told = json.loads(self.conf("check", "--json", path, code=1))
        self.assertIn("listenPort", told["error"])

    def test_a_misspelt_key_is_a_warning(self):
        told = self.conf("check", self.file("brokerRol=SLAVE\n"), code=1)
        self.assertIn("did you mean brokerRole?", told)
        self.assertTrue(told.startswith("warning: "))

    def test_a_server_that_would_refuse_to_start_open_is_an_error(self):
        path = self.file("brokerName=a\nauthenticationEnabled=true\n")
        self.assertIn(
            f"error: {path}:2: authenticationEnabled=true: not the", self.conf("check", path, code=1)
        )
        told = json.loads(self.conf("check", "--json", "--namesrv", self.file("tls.enable=true\n"), code=1))
        self.assertIn("tls.enable=true: a name server calls nobody", told["error"])

    def test_a_slaves_file_is_checked_as_a_slaves(self):
        self.assertIn(
            "allowed: a whole number from 1", self.conf("check", self.file("brokerRole=SLAVE\n"), code=1)
        )

    def test_a_key_is_explained_whatever_its_case(self):
        told = self.conf("explain", "HAFIRSTSYNC")
        self.assertIn("haFirstSync  (broker)", told)
        self.assertIn("default: lastFile", told)
        both = self.conf("explain", "listenPort")
        self.assertIn("default: 10911", both)
        self.assertIn("default: 9876", both)

    def test_with_what_a_file_sets_it_to(self):
        path = self.file("brokerName=a\nfileReservedTime=48\n")
        self.assertIn(f"{path}:2: 48", self.conf("explain", "fileReservedTime", "--conf", path))

        (told,) = json.loads(self.conf("explain", "fileReservedTime", "--conf", path, "--json"))
        self.assertEqual((told["key"], told["set"]), ("fileReservedTime", "48"))
        (told,) = json.loads(self.conf("explain", "deleteWhen", "--conf", path, "--json"))
        self.assertIsNone(told["set"])
        self.conf("explain", "deleteWhen", "--conf", f"{path}.none", "--json", code=2)
        self.assertIn("--conf needs a KEY", self.conf("explain", "--conf", path, code=2))

    def test_a_secret_that_a_file_sets_isnt_shown(self):
        path = self.file("\ntls.server.keyPassword=hush-hush\n")
        told = self.conf("explain", "tls.server.keyPassword", "--conf", path)
        self.assertIn(f"{path}:2: (hidden)\n", told)
        self.assertNotIn("hush", told)
        told, _ = json.loads(self.conf("explain", "tls.server.keyPassword", "--conf", path, "--json"))
        self.assertEqual(told["set"], "(hidden)")
        (told,) = json.loads(self.conf("explain", "haTlsKeyPassword", "--conf", path, "--json"))
        self.assertIsNone(told["set"])

    def test_what_nobody_knows(self):
        self.assertIn("did you mean brokerRole", self.conf("explain", "brokerRol", code=1))
        self.assertIn("no such key", self.conf("explain", "zzz", code=1))
        self.assertIn("without effect", self.conf("explain", "sendMessageThreadPoolNums", code=1))

    def test_all_keys_are_listed(self):
        self.assertGreater(len(json.loads(self.conf("explain", "--json"))), 80)
        self.assertIn("brokerClusterName", self.conf("explain"))


class KeyDocTests(SynchronousTestCase):
    def test_words_come_from_the_schema(self):
        (doc,) = key_docs("slaveSyncInterval")
        self.assertIn("Ours: between two copies.", doc.words)
        (inherited,) = key_docs("haTlsPeers")
        self.assertIn("separated by semicolons", inherited.words)

    def test_every_key_says_something_in_words_of_the_file(self):
        for doc in [*all_keys(), *all_keys("name server")]:
            self.assertTrue(doc.words.endswith((".", "?")), doc)
            self.assertNotRegex(doc.words, r"`[a-z]+_", doc.key)
            self.assertTrue(doc.section, doc.key)

    def test_it_says_whose_a_key_is(self):
        table = (Path(__file__).parents[1] / "config" / "rocketmq-4.9.7-keys.tsv").read_text()
        theirs = {line.split("\t")[1] for line in table.splitlines()}
        of_the_jvm = {"aclPlainFile"}
        for doc in [*all_keys(), *all_keys("name server")]:
            known = doc.key in theirs | of_the_jvm or doc.key.startswith("tls.")
            self.assertEqual(doc.origin == "RocketMQ", known, doc.key)
        self.assertEqual(key_docs("inSyncReplicas")[0].origin, "RocketMQ 5.x")
        self.assertEqual(key_docs("haFirstSync")[0].origin, "ours")
        self.assertTrue(key_docs("haFirstSync")[0].meaning.startswith("An empty slave"))

    def test_it_says_what_a_change_takes(self):
        told = [key_docs(key)[0].change.value for key in ("fileReservedTime", "haAck", "aclEnable")]
        self.assertEqual(told, ["at once", "restart", "file, restart"])
        self.assertIn("changes: at once", self.explained("deleteWhen"))

    def explained(self, key):
        return CliRunner().invoke(main, ["conf", "explain", key]).output

    def test_defaults_that_the_machine_decides(self):
        self.assertEqual(key_docs("brokerName")[0].default, "the host's name")
        self.assertEqual(key_docs("storePathRootDir")[0].default, "~/store")

    def test_secrets_have_no_default(self):
        self.assertIsNone(key_docs("tls.server.keyPassword")[0].default)

    def test_keys_that_do_nothing(self):
        self.assertIsNone(without_effect("brokerName"))
        self.assertIn("brokerRole", nearest("brokerRoll"))
