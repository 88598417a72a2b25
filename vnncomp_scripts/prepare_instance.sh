#!/usr/bin/env bash
# prepare_instance.sh v1 CATEGORY ONNX VNNLIB
# Analyses, converts and keeps nothing of the instance: it compiles the tool's Python files where that is not done yet, and
# loads the libraries once, so that the timed run finds them in the page cache.
{ set +x; } 2>/dev/null
here=${BASH_SOURCE[0]%/*}
python=${FALSIFIER_PYTHON:-$here/../.venv/bin/python}
[[ -x $python ]] || python=python3
"$python" -m compileall -q "$here/../falsifier" >/dev/null 2>&1
PYTHONPATH=$here/..${PYTHONPATH:+:$PYTHONPATH} "$python" -P -c 'import onnx, onnxruntime, falsifier.falsify' >/dev/null 2>&1
exit 0
