"""Under trial alone: guards this layer as the unit layer, and says which tests of it trial doesn't run."""

from tests.support import nosockets
from tests.support.undertrial import needs_pytest

nosockets.from_now_on()
NeedsPytest = needs_pytest("tests.replay")
