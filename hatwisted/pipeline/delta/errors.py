"""What can be wrong with a table to land into."""

from hatwisted.pipeline.errors import PipelineError


class WrongTable(PipelineError):
    """The folder is no Delta table, or one that these rows can't go into as they are."""


class Fenced(PipelineError):
    """Another run took over this landing; what this one wrote since then isn't committed."""
