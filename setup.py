"""The compiled twin of hatwisted/kernel, and the line that each Python of the environment runs as it starts
(hatwisted/sparkstart.py); everything else about the package stands in setup.cfg.

The twin is optional: without a C compiler, or with HATWISTED_PURE=1, the package is installed without it and runs
on the pure one. `python -m hatwisted.kernel` says which of the two is in use.
"""

import os

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

NAMES = (
    "requests",
    "signedsends",
    "signatures",
    "admission",
    "records",
    "answers",
    "puts",
    "dispatch",
    "index",
    "walk",
    "reading",
    "columns",
    "frames",
)
# No debug information: it would hold the folder of the build, and the archives of `make dist` are to be the same
# bytes wherever they are built.
FLAGS = ["-g0", "-fno-strict-aliasing"]
if "-O" not in os.environ.get("CFLAGS", ""):  # who says there how much is to be optimized is heard
    FLAGS.insert(0, "-O3")

START = "hatwisted-spark.pth"


def extensions() -> list[Extension]:
    if os.environ.get("HATWISTED_PURE", "0") not in ("", "0"):
        return []
    return [
        Extension(
            f"hatwisted.kernel._{name}",
            [f"hatwisted/kernel/_{name}.pyx"],
            depends=[
                "hatwisted/kernel/slots.h",
                "hatwisted/kernel/sha1lanes.h",
                "hatwisted/kernel/fetch.h",
                "hatwisted/kernel/siphash.h",
                *(
                    f"hatwisted/kernel/{name}.pxi"
                    for name in ("sendlexer", "sendanswer", "crc", "wholerecord", "queuemap", "fetcharrays")
                ),
            ],
            include_dirs=["hatwisted/kernel"],
            extra_compile_args=FLAGS,
            extra_link_args=["-s"],
            optional=True,
        )
        for name in NAMES
    ]


class BuildPython(build_py):
    """With the .pth file beside the packages, which setup.cfg has no word for."""

    def run(self) -> None:
        super().run()
        editable = self.get_finalized_command("install").install_lib if self.editable_mode else None
        self.copy_file(START, editable or self.build_lib)


setup(ext_modules=extensions(), cmdclass={"build_py": BuildPython})
