"""Under trial alone: says which tests of this layer it doesn't run."""

from tests.support.undertrial import needs_pytest

NeedsPytest = needs_pytest("tests.pipeline")
