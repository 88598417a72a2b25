#!/usr/bin/env bash
# install_tool.sh v1
# Makes the environment that the other scripts use, .venv beside this folder; with an NVIDIA driver the CUDA packages.
set -eu
[[ ${1:-} == v1 ]] || { echo "install_tool.sh: expected the version v1, found '${1:-}'" >&2; exit 1; }
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
extra=cpu,torch
if nvidia-smi >/dev/null 2>&1; then extra=gpu; fi
"${PYTHON:-python3}" -m venv .venv
.venv/bin/python -m pip install --constraint constraints.txt --editable ".[$extra]"
.venv/bin/python -m compileall -q falsifier
