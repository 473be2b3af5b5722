"""Texts of the files that ``feda3i deploy init`` writes; ``@NAME@`` stands for a value.

Kept as plain text in one place, so that an engineer who reviews a consortium's set-up can compare
what lies on the machines with what is meant.
"""

from __future__ import annotations

QUIET = """\
# Nothing calls out: no telemetry, no update check, no installation of packages at run time.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
"""

SITE_TOML = """\
# Settings of this site. They are read here and are never sent to the server.
site = "@SITE@"

# Folder with images/ and masks/ of this site (or made by 'feda3i prepare').
data-dir = "@DATA@"

# Folder for what this site remembers between rounds; needs some disk space, keep it over restarts.
state-dir = "@STATE@"

# Where to train: auto, cpu, cuda or cuda:0; and with how many threads on a CPU.
device = "auto"
threads = 1
"""

SITE_START = """\
#!/usr/bin/env bash
# Starts the node of site @SITE@. It opens outgoing connections to @ADDRESS@ only;
# port @PORT@ is used on this machine alone. Stop it with Ctrl-C or SIGTERM.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
umask 077
@QUIET@
# Flower's commands for running apps lead to feda3i's guard: settings-only apps, nothing else.
export PATH="$PWD/bin:$PATH" FLWR_HOME="$PWD/flwr"
@ENVIRONMENT@
# After a crash or a lost connection the node is started again; a server that has not noticed the
# crash yet turns it away for up to a minute.
node=""
trap 'trap - TERM INT; kill "$node" 2>/dev/null; wait "$node" 2>/dev/null; exit 0' TERM INT
while true; do
    flower-supernode \\
        --superlink "@ADDRESS@" --root-certificates ca.crt \\
        --auth-supernode-private-key node.key \\
        --host 127.0.0.1 --port "${FEDA3I_NODE_PORT:-@PORT@}" \\
        --node-config site.toml &
    node=$!
    code=0
    wait "$node" || code=$?
    echo "the node ended with code $code; it is started again in ${FEDA3I_RETRY:-15} s" >&2
    sleep "${FEDA3I_RETRY:-15}" &
    wait $!
done
"""

SERVER_ENV = """\
# Settings of the server; sites never see them.
# Names of the sites of the consortium.
FEDA3I_SITES="@SITES@"
# Absolute folder for run folders (model, event log, checkpoints).
FEDA3I_RUNS="@RUNS@"
# Optional: folder with images/ and masks/ of test cases that the server may hold.
FEDA3I_TEST=""
# Seconds to wait for all sites before the first round; then engine.min_sites of them are enough.
FEDA3I_WAIT="120"
# Port of the SuperLink on this machine; sites come through the proxy.
FEDA3I_PORT="@PORT@"
"""

SERVER_START = """\
#!/usr/bin/env bash
# Starts the server: SuperLink (bound to this machine) and SuperExec; registers the sites' keys.
# Sites come through the reverse proxy (nginx.conf), which lets them reach nothing but the fleet.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
umask 077
set -a; . ./server.env; set +a
@QUIET@
export PATH="$PWD/bin:$PATH" FLWR_HOME="$PWD/flwr"
@ENVIRONMENT@
mkdir -p "$FEDA3I_RUNS" state
trap 'trap - EXIT; kill $(jobs -p) 2>/dev/null || true; wait' EXIT INT TERM
flower-superlink \\
    --host 127.0.0.1 --port "$FEDA3I_PORT" \\
    --ssl-ca-certfile ca.crt --ssl-certfile server.crt --ssl-keyfile server.key \\
    --enable-supernode-auth --database state/superlink.db \\
    --isolation process --superexec-auth-secret-file superexec.secret \\
    --disable-runtime-dependency-installation &
flower-superexec \\
    --runtime-api-address "127.0.0.1:$FEDA3I_PORT" --root-certificates ca.crt \\
    --superexec-auth-secret-file superexec.secret &
python3 -m feda3i.deploy.control register keys
wait -n
"""

FLWR_CONFIG = """\
[superlink]
default = "consortium"

[superlink.consortium]
address = "127.0.0.1:@PORT@"
root-certificates = "@FOLDER@/ca.crt"
"""

NGINX = """\
# Reverse proxy in front of the SuperLink. Sites reach the fleet and the health check, nothing else:
# the control interface (start runs, register keys) shares the SuperLink's port and has no login.
pid @LOG@/nginx.pid;
events {}
http {
    server_tokens off;
    access_log @LOG@/nginx-access.log;
    error_log @LOG@/nginx-error.log;
    upstream superlink { server 127.0.0.1:@PORT@; keepalive 16; }
    server {
        listen @PUBLIC_PORT@ ssl;
        server_name @HOST@;
        ssl_certificate @FOLDER@/server.crt;
        ssl_certificate_key @FOLDER@/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        client_max_body_size 32m;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $host;
        proxy_read_timeout 300s;
        proxy_request_buffering off;
        proxy_ssl_trusted_certificate @FOLDER@/ca.crt;
        proxy_ssl_verify on;
        proxy_ssl_name localhost;
        location /v1/fleet/ { proxy_pass https://superlink; }
        location = /health { proxy_pass https://superlink; }
        location / { return 403; }
    }
}
"""

SITE_COMPOSE = """\
# docker compose up -d: the node of site @SITE@. The data are mounted read-only.
# The two absolute paths are those of site.toml: change them here and there.
services:
  node:
    image: feda3i:@VERSION@
    command: ["/site/start.sh"]
    restart: unless-stopped
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    user: "${UID:-1000}:${GID:-1000}"
    tmpfs: ["/tmp"]
    volumes:
      - .:/site:ro
      - flwr:/site/flwr
      - @STATE@:@STATE@
      - @DATA@:@DATA@:ro
volumes:
  flwr:
"""

SERVER_COMPOSE = """\
# docker compose up -d: SuperLink, SuperExec and the proxy share one network of their own, in which
# the SuperLink is bound to the loopback address; only the proxy's port is published.
services:
  server:
    image: feda3i:@VERSION@
    command: ["@FOLDER@/start.sh"]
    restart: unless-stopped
    user: "${UID:-1000}:${GID:-1000}"
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    ports: ["@PUBLIC_PORT@:@PUBLIC_PORT@"]
    volumes:
      - @FOLDER@:@FOLDER@
      - @RUNS@:@RUNS@
  proxy:
    image: nginx:1.28
    network_mode: "service:server"
    depends_on: [server]
    restart: unless-stopped
    command: ["nginx", "-g", "daemon off;", "-c", "@FOLDER@/nginx.conf"]
    volumes:
      - @FOLDER@/nginx.conf:@FOLDER@/nginx.conf:ro
      - @FOLDER@/server.crt:@FOLDER@/server.crt:ro
      - @FOLDER@/server.key:@FOLDER@/server.key:ro
      - @FOLDER@/ca.crt:@FOLDER@/ca.crt:ro
    tmpfs: ["@LOG@"]
"""

DOCKERFILE = """\
# docker build -t feda3i:@VERSION@ -f Dockerfile FOLDER_WITH_THE_WHEEL
# The wheel is the reviewed package; constraints.txt pins what it needs.
FROM python:3.11-slim
COPY feda3i-@VERSION@-py3-none-any.whl constraints.txt /tmp/
RUN pip install --no-cache-dir -c /tmp/constraints.txt \\
    "/tmp/feda3i-@VERSION@-py3-none-any.whl[flower]"
"""
