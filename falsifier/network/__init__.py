"""ONNX models as something to search: a reference that decides, and engines that run batches with gradients."""

from __future__ import annotations

from falsifier.network.load import Network, joined, load

__all__ = ["Network", "joined", "load"]
