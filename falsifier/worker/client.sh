# The client of the warm worker (worker/__init__.py), for the competition's scripts. It is bash alone and starts no process.

# Sets the interpreter, the folder in which workers wait, and the text by which an instance is known, for both scripts alike.
# Needs here, onnx, vnnlib.
describe_instance() {
    python=${FALSIFIER_PYTHON:-$here/../.venv/bin/python}
    [[ -x $python ]] || python=python3
    workers=${XDG_RUNTIME_DIR:-${TMPDIR:-/tmp}}/falsifier-$EUID
    printf -v identity '%q ' "$PWD" "$here" "$python" "$onnx" "$vnnlib"
}

# Hands the words to a worker that waits for this instance, and sets `status` to the exit status that it answers with.
# Fails where there is none or where it dies: nobody has answered then. Needs workers, identity, words, stopped; sets
# `worker`, which a trap may send a signal.
ask_worker() {
    local place theirs request answer both heard
    [[ -O $workers && ! -L $workers ]] || return 1
    for place in "$workers"/*; do
        { IFS= read -r -d '' theirs <"$place/identity"; } 2>/dev/null
        [[ $theirs == "$identity" && -p $place/request && -p $place/answer ]] || continue
        set -o noclobber
        { echo "$$" >"$place/claim"; } 2>/dev/null
        heard=$?
        set +o noclobber
        ((heard == 0)) || continue
        # opened both ways first, which never waits; the answer of a worker that is dead ends at once then
        { exec {request}<>"$place/request" {both}<>"$place/answer"; } 2>/dev/null || continue
        exec {answer}<"$place/answer" {both}>&-
        worker=${place##*/}
        [[ $stopped ]] || printf '%s\0' "${#words[@]}" "${words[@]}" >&"$request"
        hear_worker
        heard=$?
        worker=''
        exec {request}>&- {answer}<&-
        ((heard == 0)) && return
    done
    return 1
}

# Waits for the answer. A worker that was sent a signal and does not end is ended.
hear_worker() {
    local line
    while IFS= read -r -t 1 -u "$answer" line; (($? > 128)); do
        [[ $stopped ]] && ((SECONDS > stopped)) && kill -KILL "$worker" 2>/dev/null
    done
    [[ $line == [0-9]* ]] || return
    status=$line
    while IFS= read -r -u "$answer" line; do printf '%s\n' "$line" >&2; done
    return 0
}
