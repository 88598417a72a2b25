#!/usr/bin/env bash
# What only a machine with a CUDA device shows, in about 8 minutes and without a network: the tests marked `gpu`, the
# engines' throughput on the device beside the CPU's, one instance by `auto`, and a short run of batch_fuzzing.py where
# that is there.
#
#   benchmarks/gpu.sh [FOLDER]     results go to FOLDER (default: gpu-results): one log or JSON file for each part
#
# Needs a Python (PYTHON, default python3) that has what the extras [cpu,torch,test] bring, with a CUDA build of torch.
# Where a package of `requirements` is missing it is installed if an index can be reached, into .venv-gpu, which sees
# PYTHON's packages; nothing else is fetched. Exit status: 0 if every part passed.
set -u
cd "$(dirname "$0")/.." || exit 1
out=$(mkdir -p "${1:-gpu-results}" && cd "${1:-gpu-results}" && pwd) || exit 1
python=${PYTHON:-python3}
requirements="numpy onnx onnxruntime torch array_api_compat vnnlib pytest hypothesis"

missing() {
    "$1" - $requirements <<'PY'
import sys
from importlib.util import find_spec
print(*(name for name in sys.argv[1:] if find_spec(name) is None))
PY
}

lacks=$(missing "$python")
if [ -n "$lacks" ]; then
    "$python" -m venv --system-site-packages .venv-gpu || exit 1
    python=.venv-gpu/bin/python
    # array_api_compat is array-api-compat on the index; versions as pinned
    "$python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt ${lacks//_/-} || {
        echo "gpu.sh: missing $lacks, and they cannot be installed here" >&2
        exit 1
    }
fi
export PYTHONPATH=$PWD
"$python" - >"$out/machine.txt" 2>&1 <<'PY' || { cat "$out/machine.txt" >&2; exit 1; }
import platform, sys
import numpy, onnx, onnxruntime, torch
print("python", platform.python_version(), "numpy", numpy.__version__, "onnx", onnx.__version__)
print("onnxruntime", onnxruntime.__version__, onnxruntime.get_available_providers())
print("torch", torch.__version__, "cuda", torch.version.cuda)
if not torch.cuda.is_available():
    sys.exit("gpu.sh: torch sees no CUDA device")
print("device", torch.cuda.get_device_name(), "driver sees", torch.cuda.device_count())
PY

failed=0
part() { # name, seconds, command...
    local name=$1 limit=$2 start=$SECONDS
    shift 2
    timeout "$limit" "$@" >"$out/$name" 2>"$out/$name.stderr"
    local status=$?
    echo "$name: exit status $status, $((SECONDS - start)) s" | tee -a "$out/summary.txt"
    [ $status -eq 0 ] || failed=1
}

: >"$out/summary.txt"
part tests.txt 150 "$python" -m pytest -m gpu -q -p no:cacheprovider tests
part engine-cuda.json 100 "$python" benchmarks/engine.py --device cuda --threads 1 --lanes 64 512 4096 --repeats 3 --loop-seconds 1
part engine-cpu.json 100 "$python" benchmarks/engine.py --threads 1 --lanes 64 512 4096 --repeats 3 --seconds 0.1 --no-loop
part doctor.txt 30 "$python" -m falsifier doctor examples/digits.onnx --device cuda
part auto.json 40 "$python" -m falsifier verify examples/digits_robust.vnnlib --network examples/digits.onnx --timeout 20 --json -
instances=../shared/arena/instances.csv # a collection of competition instances (CONTRIBUTING.md)
if [ -f benchmarks/batch_fuzzing.py ] && [ -f $instances ]; then
    part fuzzing.json 150 "$python" benchmarks/batch_fuzzing.py $instances --rq 1 --device cuda \
        --families rl sri_resnet_a --sizes 1 10 99 256 512 --count 512 --window 4 --runs 2
fi
tail -n 3 "$out/tests.txt"
exit $failed
