"""The compiled twin of hatwisted/kernel; everything else about the package stands in setup.cfg.

It is optional: without a C compiler, or with HATWISTED_PURE=1, the package is installed without it and runs on
the pure twin. `python -m hatwisted.kernel` says which of the two is in use.
"""

import os

from setuptools import Extension, setup

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
    "columns",
)
# No debug information: it would hold the folder of the build, and the archives of `make dist` are to be the same
# bytes wherever they are built.
FLAGS = ["-O3", "-g0", "-fno-strict-aliasing"]


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
                *(f"hatwisted/kernel/{name}.pxi" for name in ("sendlexer", "crc", "wholerecord")),
            ],
            include_dirs=["hatwisted/kernel"],
            extra_compile_args=FLAGS,
            extra_link_args=["-s"],
            optional=True,
        )
        for name in NAMES
    ]


setup(ext_modules=extensions())
