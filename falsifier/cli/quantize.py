"""`falsifier quantize`: the half-precision or int8 copy of a model, for `falsifier fuzz --objective disagree`."""

from __future__ import annotations

from pathlib import Path

from falsifier.cli.arguments import Parser, non_negative_int
from falsifier.cli.outputs import demand_others
from falsifier.errors import InputError


def run(words: list[str], started: float) -> int:
    """Write the copy and print its name."""
    parser = Parser("quantize", "Write a copy of a model in half precision or int8, by onnxruntime's own tools.")
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file, plain or gzip")
    parser.add_argument("--to", choices=("float16", "int8"), default="int8", help="int8: static, QDQ (default)")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="the copy (default MODEL.<kind>.onnx here)")
    parser.add_argument("--inputs", type=Path, metavar="FILE", help="int8: samples that calibrate it, .npz as for fuzz")
    parser.add_argument("--per-channel", action="store_true", help="int8: a scale for each output channel")
    parser.add_argument("--rng-seed", type=non_negative_int, default=0, help="of random calibration (default 0)")
    options = parser.parse_args(words)

    if options.to != "int8" and (options.inputs is not None or options.per_channel):
        raise InputError("--inputs and --per-channel belong to --to int8: leave them out")

    from falsifier.fuzz.quantize import quantize

    out = options.out or Path(f"{options.model.name.split('.')[0]}.{options.to}.onnx")
    demand_others({"--out": out}, [options.inputs], [options.model], "the run")
    quantize(
        options.model,
        out,
        options.to,
        inputs=options.inputs,
        rng_seed=options.rng_seed,
        per_channel=options.per_channel,
    )
    print(out)
    return 0
