#!/usr/bin/env bash
# prepare_instance.sh v1 CATEGORY ONNX VNNLIB
# Analyses nothing: it compiles the tool's Python files where that is not done yet, and starts a worker that has the libraries
# loaded, the network converted and the query read when run_instance.sh asks it. Settings: settings.sh.
{ set +x; } 2>/dev/null
[[ $# -ge 4 && $1 == v1 ]] || { echo "prepare_instance.sh: expected v1 CATEGORY ONNX VNNLIB, found: ${*@Q}" >&2; exit 1; }
here=${BASH_SOURCE[0]%/*} onnx=$3 vnnlib=$4 started=
trap 'kill -TERM $started 2>/dev/null; exit 143' TERM INT HUP
. "$here/settings.sh"
. "$here/../falsifier/worker/client.sh"
describe_instance
export PYTHONPATH=$here/..${PYTHONPATH:+:$PYTHONPATH}
"$python" -m compileall -q "$here/../falsifier" >/dev/null 2>&1
if [[ ${FALSIFIER_WORKER:-} == off ]]; then # the timed run finds the libraries in the page cache at least
    "$python" -P -c 'import onnx, onnxruntime, falsifier.falsify' >/dev/null 2>&1 &
else
    "$python" -P -m falsifier serve --folder="$workers" --identity="$identity" --unused="${FALSIFIER_WORKER:-900}" \
        --network="$onnx" -- "$vnnlib" >/dev/null &
fi
started=$!
wait "$started"
exit 0
