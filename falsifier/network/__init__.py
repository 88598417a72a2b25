"""ONNX models as something to search: a reference that decides, and engines that run batches with gradients."""

from __future__ import annotations

from falsifier.network.joint import JointNetwork
from falsifier.network.load import Network, load

__all__ = ["JointNetwork", "Network", "load"]
