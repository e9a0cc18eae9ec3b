"""Which twin runs: the compiled one where it is built and fits, Python's otherwise."""

from __future__ import annotations

from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from hatwisted.kernel import COMPILED, choice


class ChoiceTests(SynchronousTestCase):
    def test_one_of_another_interface_counts_as_none(self) -> None:
        self.patch(choice, "import_module", lambda name: SimpleNamespace(INTERFACE=choice.INTERFACE + 1))
        self.assertEqual(choice.compiled_parts(), {})

    def test_one_that_is_missing_counts_as_none(self) -> None:
        def missing(name: str) -> None:
            raise ImportError(name)

        self.patch(choice, "import_module", missing)
        self.assertEqual(choice.compiled_parts(), {})

    def test_this_process_says_what_it_uses(self) -> None:
        self.assertEqual(COMPILED, choice.RunEncoder is not choice.pure.RunEncoder)
