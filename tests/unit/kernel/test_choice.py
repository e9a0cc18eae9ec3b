"""Which twin runs: the compiled one where it is built and fits, Python's otherwise."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

import hatwisted.kernel
from hatwisted.kernel import COMPILED, choice

FROM_BEHIND = re.compile(r"\w\[-")
"""An index that counts from the end: compiled with `wraparound=False` it reads what lies before the beginning."""


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

    def test_no_compiled_part_counts_from_the_end(self) -> None:
        sources = list(Path(hatwisted.kernel.__file__).parent.glob("*.p[yx]*"))
        compiled = [each for each in sources if each.suffix in (".pyx", ".pxi")]
        self.assertEqual(sum(each.suffix == ".pyx" for each in compiled), len(choice.NAMES))
        found = [each.name for each in compiled if FROM_BEHIND.search(each.read_text())]
        self.assertEqual(found, [])
