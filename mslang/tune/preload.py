"""What every worker needs, imported once in the fork server."""

import llvmlite.binding  # noqa: F401
import numpy  # noqa: F401

import mslang.lower  # noqa: F401
