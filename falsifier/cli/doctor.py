"""`falsifier doctor`: versions, devices and providers, and which engine serves a model and why."""

from __future__ import annotations

from pathlib import Path

from falsifier.cli.arguments import Parser, input_shape


def run(words: list[str], started: float) -> int:
    """Print the report."""
    parser = Parser("doctor", "Say what this installation has, and which engine serves a model and why.")
    parser.add_argument("model", nargs="*", type=Path, metavar="MODEL", help="an ONNX file, plain or gzip")
    parser.add_device()
    parser.add_argument(
        "--shape",
        type=input_shape,
        action="append",
        default=[],
        metavar="NAME=D,D,...",
        help="the shape of an input that the model leaves open (chosen otherwise)",
    )
    options = parser.parse_args(words)

    from falsifier.network.doctor import examine, installation

    for line in installation().lines():
        print(line)
    for model in options.model:
        for line in examine(model, options.device, dict(options.shape)).lines():
            print(line)
    return 0
