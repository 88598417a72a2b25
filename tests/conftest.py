"""Makes `models` importable by every test, keeps onnxruntime and torch on one thread, and hypothesis off the clock."""

from __future__ import annotations

import os

from hypothesis import settings

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile("no clock", deadline=None)  # a machine under load is no failure
settings.load_profile("no clock")
