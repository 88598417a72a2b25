#!/usr/bin/env bash
# run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT
# Leaves sat (with a witness), unsat, unknown, timeout or error in RESULTS and exits with 0. FALSIFIER_PYTHON names another
# interpreter than that of install_tool.sh, FALSIFIER_RNG_SEED the state of the random draws, FALSIFIER_WORKER=off asks no worker.
{ set +x; } 2>/dev/null
here=${BASH_SOURCE[0]%/*} onnx=$3 vnnlib=$4 results=${5%$'\r'} timeout=$6 status=0 worker='' stopped=''
# a valid answer stands before anything can go wrong, and no answer of an earlier run survives
{ echo unknown >"$results"; } 2>/dev/null || { echo "run_instance.sh: cannot write the results file '$results'" >&2; exit 1; }
trap 'stopped=${stopped:-$SECONDS}; kill -TERM $worker 2>/dev/null' TERM INT HUP
. "$here/../falsifier/worker/client.sh"
describe_instance
words=(--since=$$ --timeout="$timeout" --results="$results" --network="$onnx" --rng-seed="${FALSIFIER_RNG_SEED:-0}" -- "$vnnlib")
if { [[ ${FALSIFIER_WORKER:-} == off ]] || ! ask_worker; } && [[ ! $stopped ]]; then
    PYTHONPATH=$here/..${PYTHONPATH:+:$PYTHONPATH} "$python" -P -m falsifier verify "${words[@]}" >/dev/null &
    worker=$!
    [[ ! $stopped ]] || kill -TERM "$worker"
    wait "$worker"
    wait "$worker" # the first `wait` ends when a signal comes, this one when the process has ended
    status=$?
fi
case $status in 2 | 126 | 127) echo error >"$results" ;; esac # bad input, or no Python that runs
exit 0
