#!/usr/bin/env bash
# run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT
# Leaves sat (with a witness), unsat, unknown, timeout or error in RESULTS and exits with 0. Settings: settings.sh.
{ set +x; } 2>/dev/null
[[ $# -ge 5 ]] || { echo "run_instance.sh: expected v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT, found: ${*@Q}" >&2; exit 1; }
here=${BASH_SOURCE[0]%/*} onnx=$3 vnnlib=$4 results=${5%$'\r'} timeout=$6 status=0 worker='' stopped=''
if [[ $results -ef ${vnnlib%$'\r'} || $results -ef ${onnx%$'\r'} ]]; then
    echo "run_instance.sh: the results file '$results' is a file of the instance, which would be lost: name another" >&2
    exit 1
fi
# a valid answer stands before anything can go wrong, and no answer of an earlier run survives
{ echo unknown >"$results"; } 2>/dev/null || { echo "run_instance.sh: cannot write the results file '$results'" >&2; exit 1; }
trap 'stopped=${stopped:-$SECONDS}; kill -TERM $worker 2>/dev/null' TERM INT HUP
. "$here/settings.sh"
. "$here/../falsifier/worker/client.sh"
describe_instance
then=()
[[ ! $FALSIFIER_THEN ]] || then=("--then=$FALSIFIER_THEN" ${FALSIFIER_CONFIG:+"--config=$FALSIFIER_CONFIG"} ${FALSIFIER_THEN_AFTER:+"--then-after=$FALSIFIER_THEN_AFTER"})
words=("${then[@]}" --since=$$ --timeout="$timeout" --results="$results" --network="$onnx" --rng-seed="${FALSIFIER_RNG_SEED:-0}" --workers="${FALSIFIER_PROCESSES:-auto}" -- "$vnnlib")
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
