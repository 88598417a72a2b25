# Settings of the scripts in this folder. What stands in the environment goes before what stands here.
: "${FALSIFIER_THEN:=}"       # who gets what the search leaves open: a name that `falsifier adapters` lists, or one of the tables below; empty: nobody
: "${FALSIFIER_CONFIG:=}"     # a TOML file with settings of adapters, a table for each name (docs/handoff.md)
: "${FALSIFIER_THEN_AFTER:=}" # seconds that the search has before that; empty: the adapter's own share of the time limit
: "${FALSIFIER_RNG_SEED:=0}"  # the state of all random draws
: "${FALSIFIER_PROCESSES:=auto}" # how many search what the first pass leaves open, on small networks: 1 for none beside the main one; auto: one for each free core
: "${FALSIFIER_PYTHON:=}"     # another interpreter than that of install_tool.sh
: "${FALSIFIER_WORKER:=}"     # off: prepare_instance.sh starts no worker; a number: seconds that one waits for its run
# A setting of the hand-off without one is said, and nothing else: to refuse it here would cost the instance.
[[ $FALSIFIER_THEN || ! $FALSIFIER_CONFIG$FALSIFIER_THEN_AFTER ]] || echo "settings.sh: FALSIFIER_CONFIG and FALSIFIER_THEN_AFTER do nothing without FALSIFIER_THEN, which is empty" >&2
