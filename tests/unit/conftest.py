"""The unit layer under pytest: guarded as by trial, its files in memory."""

from tests.support.sealed import folder_of_the_module as folder_of_the_module
from tests.support.sealed import nothing_outside as nothing_outside
