#!/usr/bin/env bash
# run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT
# Leaves sat (with a witness), unsat, unknown, timeout or error in RESULTS and exits with 0. FALSIFIER_PYTHON names another
# interpreter than that of install_tool.sh, FALSIFIER_RNG_SEED the state of the random draws.
{ set +x; } 2>/dev/null
here=${BASH_SOURCE[0]%/*} onnx=$3 vnnlib=$4 results=${5%$'\r'} timeout=$6
# a valid answer stands before anything can go wrong, and no answer of an earlier run survives
{ echo unknown >"$results"; } 2>/dev/null || { echo "run_instance.sh: cannot write the results file '$results'" >&2; exit 1; }
python=${FALSIFIER_PYTHON:-$here/../.venv/bin/python}
[[ -x $python ]] || python=python3
trap 'kill -TERM $(jobs -p) 2>/dev/null' TERM INT HUP
PYTHONPATH=$here/..${PYTHONPATH:+:$PYTHONPATH} "$python" -P -m falsifier verify --timeout="$timeout" --results="$results" \
    --network="$onnx" --rng-seed="${FALSIFIER_RNG_SEED:-0}" -- "$vnnlib" >/dev/null &
wait $!
wait $! # the first `wait` ends when a signal comes, this one when the process has ended
case $? in 2 | 126 | 127) echo error >"$results" ;; esac # bad input, or no Python that runs
exit 0
