"""Texts of the guides that ``feda3i deploy init`` writes beside the files; one page each."""

from __future__ import annotations

SITE = """\
# Site @SITE@: join the consortium

You need a Linux machine with Python 3.11 or newer that can open **outgoing** connections to
`@ADDRESS@`. Nobody connects to you. Your images and masks stay where they are; what leaves the site
is the network's parameters and the few numbers that the method declares (`feda3i explain METHOD`).

1. **Unpack this folder** on the machine, readable by the user that will run the node only.
   `node.key` is this site's identity: it must stay on this machine (mode 600). To use a key of your
   own instead: `ssh-keygen -t ecdsa -b 384 -N "" -f node.key`, send `node.key.pub` to the operator.
2. **Install** feda3i @VERSION@, the version that all sites use:
   `python3 -m venv venv && . venv/bin/activate && pip install "feda3i[flower]==@VERSION@"`
3. **Say where your data are**: edit `site.toml`. `data-dir` is a folder with `images/` and
   `masks/`, one mask per image with the same name. This file is never sent anywhere. (With Docker,
   change the same paths in `compose.yaml`.)
4. **Check** everything before the first round: `feda3i deploy check .`
   It reads the data, the key, versions and the clock, and tries the connection. Every line must say
   `ok`; each other line says what to do.
5. **Start** the node: `./start.sh` (or `docker compose up -d`). Leave it running. It waits for
   orders, and can be stopped and started at any time: a round that it misses goes on without it.

**What the node does not do.** It accepts apps that hold settings only and runs the feda3i that you
installed (`bin/` leads Flower's commands to that check). It loads no code from the network,
installs nothing, and sends no telemetry. A recipe that names a Python file is refused.

**If something is wrong**

| you see | it means |
| --- | --- |
| exit code 305, "No SuperNode found" at the server | this key is not registered (yet) |
| exit code 305 right after a crash | the server notices a crash after a minute; just wait |
| certificate error | `ca.crt` is not the consortium's, or the address is not the certificate's |
| signature or timestamp refused | this machine's clock is off by minutes: switch on NTP |
| `the site's data cannot be used` at the server | this node's own output says which file and why |

To leave the consortium: stop the node, delete this folder and the state folder, tell the operator.
"""

SERVER = """\
# The server of the consortium (@ADDRESS@)

Sites: @SITES@.

1. **Keep `authority/ca.key` offline.** It signs server certificates and is not needed to run.
   Certificates are valid for @DAYS@ days; `feda3i deploy renew OUT` makes a new one in time.
2. **Send each site its own folder** `sites/NAME` over a channel you trust (it holds the site's
   private key), and delete your copy. `server/keys` holds the public halves that are let in.
3. **Install** `feda3i[flower]==@VERSION@` and nginx on the server; copy `server/` to
   `@FOLDER@`.
4. **Start** `server/start.sh`. The SuperLink is bound to 127.0.0.1:@PORT@; all keys in `keys/`
   are registered.
5. **Start the proxy**: `nginx -c @FOLDER@/nginx.conf` listens on port @PUBLIC_PORT@ and lets sites
   reach `/v1/fleet/` and `/health`. Do not publish port @PORT@: whoever reaches it can start runs.
   (`docker compose up -d` starts all of this in one network.)
6. **Run a recipe**: `feda3i deploy run RECIPE.toml --server @FOLDER@ --name NAME`
   It waits for the sites (`engine.min_sites`, `engine.deadline`), shows the rounds, and ends with
   exit code 0 only if the run came to its end. The run folder lies in `FEDA3I_RUNS` (`server.env`).
7. **After a crash**: start the server again, then the same command with `--resume`.

A site that joins later: make its folder with `feda3i deploy add NAME --to OUT`, register it by
starting the server again. To lock a site out: `FLWR_HOME=@FOLDER@/flwr flwr supernode list`, then
`flwr supernode unregister NODE_ID`; remove its file from `keys/`, its name from `server.env`.
"""
