"""Under trial alone: says which tests of this layer it doesn't run."""

from tests.support import nosockets
from tests.support.undertrial import needs_pytest

nosockets.no_more()  # trial has no fixtures, and these tests may do what the unit layer may not
NeedsPytest = needs_pytest("tests.system")
