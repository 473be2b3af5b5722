#!/usr/bin/env bash
# Starts the server: SuperLink (bound to this machine) and SuperExec; registers the sites' keys.
# Sites come through the reverse proxy (nginx.conf), which lets them reach nothing but the fleet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
umask 077
set -a; . ./server.env; set +a
# Nothing calls out: no telemetry, no update check, no installation of packages at run time.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
export PATH="$PWD/bin:$PATH" FLWR_HOME="$PWD/flwr"
@ENVIRONMENT@
# One process has Python, Flower and torch loaded and forks for every run.
export FEDA3I_DOOR="$PWD/flwr/door" FEDA3I_KNOCK="" FEDA3I_SERVER="$PWD"
if [ "${FEDA3I_WARM:-1}" != 0 ]; then
    FEDA3I_KNOCK=$(python3 -P -c 'import feda3i.flower.knock as k; print(k.__file__)')
fi
export FLWR_SUPEREXEC_TASK_POLL_INTERVAL="${FLWR_SUPEREXEC_TASK_POLL_INTERVAL:-0.5}"
mkdir -p "$FEDA3I_RUNS" state
trap 'trap - EXIT; kill $(jobs -p) 2>/dev/null || true; wait' EXIT INT TERM
flower-superlink \
    --host 127.0.0.1 --port "$FEDA3I_PORT" \
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key \
    --enable-supernode-auth --database state/superlink.db \
    --isolation process --superexec-auth-secret-file superexec.secret \
    --disable-runtime-dependency-installation &
flower-superexec \
    --runtime-api-address "127.0.0.1:$FEDA3I_PORT" --root-certificates ca.crt \
    --superexec-auth-secret-file superexec.secret &
python3 -P -m feda3i.deploy.control admit keys
if [ -n "$FEDA3I_KNOCK" ]; then
    python3 -P -m feda3i.flower.warm server &
    disown  # the server goes on without it; it ends when this script does
fi
wait -n
