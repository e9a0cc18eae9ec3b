"""The fuzz's inputs are fed again without sockets and processes, too."""

from tests.support.sealed import folder_of_the_module as folder_of_the_module
from tests.support.sealed import nothing_outside as nothing_outside
