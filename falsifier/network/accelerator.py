"""Whether this machine has an accelerator, asked without importing torch where it cannot have one."""

from __future__ import annotations

import os
from glob import glob


def find() -> str | None:
    """The torch device that `auto` may go over to: "cuda" where torch sees one; None elsewhere.

    Imports torch, and brings CUDA up, only where the driver's device files are there and the environment does not hide
    them. What is broken there counts as none.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return None
    if not (glob("/dev/nvidia[0-9]*") or os.path.exists("/dev/dxg")):
        return None
    try:
        import torch

        return "cuda" if torch.cuda.is_available() else None
    except (ImportError, OSError, RuntimeError):
        return None
