"""Settings in a name server: what there is room for."""

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.namesrv import kvconfig
from hatwisted.namesrv.kvconfig import KvConfig, TooManySettings


class LimitTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.settings = KvConfig()
        self.changes: list[bytes] = []
        self.settings.on_change(lambda: self.changes.append(self.settings.encode()))

    def refused(self, namespace: str, key: str, value: str) -> None:
        before = self.settings.encode(), len(self.changes)
        self.assertRaises(TooManySettings, self.settings.put, namespace, key, value)
        self.assertEqual((self.settings.encode(), len(self.changes)), before)

    def test_keys_and_namespaces(self) -> None:
        self.patch(kvconfig, "MAX_SETTINGS", 5)
        self.settings.put("N", "a", "1")
        self.settings.put("N", "b", "1")
        self.settings.put("O", "a", "1")
        self.refused("N", "c", "1")
        self.refused("P", "a", "1")
        self.settings.put("N", "a", "2")
        self.settings.delete("N", "b")
        self.settings.put("O", "b", "1")
        self.assertEqual(self.settings.namespace("O"), {"a": "1", "b": "1"})

    def test_characters(self) -> None:
        self.patch(kvconfig, "MAX_CHARACTERS", 100)
        self.settings.put("N", "a", "x" * 90)
        self.refused("N", "b", "x" * 50)
        self.refused("N", "a", "x" * 120)
        self.settings.put("N", "a", "x" * 95)
        self.settings.put("N", "a", "x")
        self.settings.put("N", "b", "x" * 50)
