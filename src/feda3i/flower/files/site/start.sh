#!/usr/bin/env bash
# Starts the node of site @SITE@. It opens outgoing connections only, to the address in
# consortium.toml; port @PORT@ is used on this machine alone. Stop it with Ctrl-C or SIGTERM.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
umask 077
# Nothing calls out: no telemetry, no update check, no installation of packages at run time.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
# Flower's commands for running apps lead to feda3i's guard: settings-only apps, nothing else.
export PATH="$PWD/bin:$PATH" FLWR_HOME="$PWD/flwr"
@ENVIRONMENT@
# One process has Python, Flower and torch loaded and forks for every message. Without it
# (FEDA3I_WARM=0, or if it has ended) every message loads them again, which takes seconds.
export FEDA3I_DOOR="$PWD/flwr/door" FEDA3I_KNOCK=""
if [ "${FEDA3I_WARM:-1}" != 0 ]; then
    FEDA3I_KNOCK=$(python3 -P -c 'import feda3i.flower.knock as k; print(k.__file__)')
fi
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL="${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.2}"
read_address='import tomllib; print(tomllib.load(open("consortium.toml", "rb"))["address"])'
address=$(python3 -P -c "$read_address")
# After a crash or a lost connection the node is started again; a server that has not noticed the
# crash yet turns it away for up to a minute.
node="" warm=""
stop() {
    trap - TERM INT
    kill $node $warm 2>/dev/null || true
    wait $node $warm 2>/dev/null || true
    exit 0
}
trap stop TERM INT
while true; do
    if [ -n "$FEDA3I_KNOCK" ] && ! { [ -n "$warm" ] && kill -0 "$warm" 2>/dev/null; }; then
        python3 -P -m feda3i.flower.warm site &
        warm=$!
    fi
    python3 -P -m feda3i.flower.supernode \
        --superlink "$address" --root-certificates ca.crt \
        --auth-supernode-private-key node.key \
        --host 127.0.0.1 --port "${FEDA3I_NODE_PORT:-@PORT@}" \
        --node-config site.toml &
    node=$!
    code=0
    wait "$node" || code=$?
    echo "the node ended with code $code; it is started again in ${FEDA3I_RETRY:-15} s" >&2
    sleep "${FEDA3I_RETRY:-15}" &
    wait $!
done
