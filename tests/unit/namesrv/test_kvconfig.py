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

    def test_names_of_namespaces_count_and_empty_ones_make_room(self) -> None:
        self.patch(kvconfig, "MAX_CHARACTERS", 100)
        self.settings.put("M" * 40, "a", "1")
        self.settings.put("N" * 40, "a", "1")
        self.refused("O" * 40, "a", "1")
        self.settings.delete("M" * 40, "a")
        self.assertEqual(self.settings.namespace("M" * 40), {})
        self.settings.put("O" * 40, "a", "1")
        self.assertIsNone(self.settings.namespace("M" * 40))

    def test_settings_that_were_deleted_take_no_place(self) -> None:
        self.patch(kvconfig, "MAX_SETTINGS", 5)
        for number in range(20):
            self.settings.put(f"N{number}", "a", "1")
            self.settings.delete(f"N{number}", "a")
        self.settings.put(kvconfig.ORDER_TOPIC_CONFIG, "T", "b:1")
        self.settings.delete(kvconfig.ORDER_TOPIC_CONFIG, "T")
        for number in range(3):
            self.settings.put("N", str(number), "1")
        self.assertEqual(self.settings.namespace(kvconfig.ORDER_TOPIC_CONFIG), {})
