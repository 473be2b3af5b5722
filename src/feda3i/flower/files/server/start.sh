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
# Flower's commands for running apps lead to feda3i's guard: settings-only apps, nothing else.
export PATH="$PWD/bin:$PATH" FLWR_HOME="$PWD/flwr" FEDA3I_SERVER="$PWD"
@ENVIRONMENT@
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
python3 -P -m feda3i.flower.deploy_control
wait -n
