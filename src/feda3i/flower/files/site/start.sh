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
read_address='import tomllib; print(tomllib.load(open("consortium.toml", "rb"))["address"])'
address=$(python3 -P -c "$read_address")
# After a crash or a lost connection the node is started again; a server that has not noticed the
# crash yet turns it away for up to a minute.
node=""
stop() {
    trap - TERM INT
    kill $node 2>/dev/null || true
    wait $node 2>/dev/null || true
    exit 0
}
trap stop TERM INT
while true; do
    flower-supernode \
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
