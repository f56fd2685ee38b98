"""A stand-in for the module that Triton's side imports, which exists in Triton's Python alone."""

import sys

from tests.support import triton_backend

sys.modules["triton_python_backend_utils"] = triton_backend.MODULE
