"""Everything a consortium needs to run a task on Flower, written into one folder.

::

    federation/
      README.md               what to do, in order
      sfumato-hulls/          the Flower app: names the installed Sfumato, nothing else
      estimator.sfumato       what every party fits
      run.toml                the run configuration
      coordinator/            superlink.sh, nginx.conf, submit.sh, and the certificates if asked for
      parties/hospital-a/     party.toml, supernode.sh, to be handed to the party
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.atomic_file import written_aside
from sfumato.exceptions import InvalidInputError
from sfumato.federated.coordination import Task
from sfumato.federated.flower.app_folder import write_app
from sfumato.federated.flower.simulation import run_configuration

__all__ = ["write_deployment"]

QUIET = """\
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
"""
VALID = """\
if command -v openssl >/dev/null && ! openssl x509 -checkend 0 -noout -in {0} >/dev/null; then
  echo "{0} has expired or cannot be read: the coordinator makes new certificates." >&2
  exit 1
fi
"""
SUPERLINK = f"""\
#!/bin/sh
# The coordinator's SuperLink. It listens on loopback only: nginx.conf publishes the part that
# nodes need. Its control interface has no login, so whoever reaches it can run code at the nodes.
cd "$(dirname "$0")"
{VALID.format("server.pem")}{QUIET}
exec flower-superlink --host 127.0.0.1 --port 8000 --database superlink.db \\
  --ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key \\
  --enable-supernode-auth --disable-runtime-dependency-installation
"""
NGINX = """\
# Publishes only what SuperNodes need; everything else of the SuperLink stays on loopback.
events {{}}
http {{
  client_max_body_size 0;
  server {{
    listen {port} ssl;
    server_name {host};
    ssl_certificate     server.pem;
    ssl_certificate_key server.key;
    location /v1/fleet/ {{
      proxy_pass https://127.0.0.1:8000;
      proxy_ssl_verify on;
      proxy_ssl_trusted_certificate ca.crt;
      proxy_ssl_name localhost;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_buffering off;
      proxy_read_timeout 300s;
    }}
    location / {{ return 403; }}
  }}
}}
"""
SUBMIT = f"""\
#!/bin/sh
# Run by the coordinator, on the machine of the SuperLink, once the nodes are registered:
#   flwr supernode register PARTY.pub federation
cd "$(dirname "$0")"
{QUIET}mkdir -p "${{FLWR_HOME:=$PWD/flower-home}}"
export FLWR_HOME
cat > "$FLWR_HOME/config.toml" <<EOF
[superlink]
default = "federation"
[superlink.federation]
address = "127.0.0.1:8000"
root-certificates = "$PWD/ca.crt"
EOF
run=$(flwr run ../sfumato-{{kind}} federation --run-config ../run.toml --format json |
  sed -n 's/.*"run-id": *"\\{{0,1\\}}\\([0-9]*\\).*/\\1/p')
[ -n "$run" ] || exit 1
flwr log "$run" federation
# How it ended, and why. A coordinator that is killed is missed after a minute. What parties have
# released is stored: submit again, and nobody pays twice.
exec flwr list federation --run-id "$run"
"""
SUPERNODE = f"""\
#!/bin/sh
# A party's SuperNode. Run it as a user of its own that can read the party's rows and write its
# store and ledger, and nothing else: Flower runs the code that the coordinator submits.
cd "$(dirname "$0")"
{VALID.format("ca.crt")}{QUIET}
stop() {{
  kill "$node" 2>/dev/null
  wait "$node"
  exit 0
}}
trap stop INT TERM
# Flower refuses a second session of a key for about a minute, so a node that was killed and comes
# back is started again until it is let in.
tries=0
while [ "$tries" -lt 12 ]; do
  began=$(date +%s)
  flower-supernode --superlink {{host}}:{{port}} --root-certificates ca.crt \\
    --auth-supernode-private-key node.key --node-config "party='$PWD/party.toml'" &
  node=$!
  wait "$node" && exit 0
  [ $(($(date +%s) - began)) -lt 120 ] || tries=0
  tries=$((tries + 1))
  echo "The node has ended; it is started again in 10 seconds, try $tries of 12." >&2
  sleep 10
done
echo "The node was not let in: is its key registered, and is the coordinator up?" >&2
exit 1
"""
PARTY = """\
# What {name} decides by itself; this file never leaves it.
name = "{name}"
data = "rows.parquet"        # a table, or rows.npz with the arrays X and y
bounds = "bounds.toml"       # for a table: the bounds on which the parties agreed, confirmed
target = "label"
unit = "{unit}"
relation = "{relation}"
store = "releases"           # what was released, and the log of messages
max_epsilon = {epsilon}            # a task that asks for more is refused
max_delta = {delta}
# Make the ledger first:  sfumato budget create ledger.db {name} --epsilon {epsilon} --delta {delta}
ledger = "ledger.db"
dataset = "{name}"

[execution]
n_jobs = 2
"""
README = """\
# Federation "{task}"

1. Coordinator: put `ca.crt`, `server.pem` and `server.key` into `coordinator/` (or let
   `sfumato federate deploy --certificates` make them), start `coordinator/superlink.sh` and nginx
   with `coordinator/nginx.conf`.
2. Every party gets its folder of `parties/` and `ca.crt`. It makes its key
   (`ssh-keygen -t ecdsa -b 384 -f node.key`), sends `node.key.pub` to the coordinator, fills in
   `party.toml`, creates its ledger, and starts `supernode.sh` as a user of its own.
3. Coordinator: `flwr supernode register node.key.pub federation` for every key that it knows to be
   a party's, then `coordinator/submit.sh`. The global model and `federation.json` are written into
   `result/`.

A run that is submitted again gets the stored releases: nobody pays twice. Another task needs
another name. A party that was killed comes back with the same key: `supernode.sh` tries again until
Flower lets it in, which takes about a minute. `federation.json` names every party that was absent
or refused, round by round.
"""


def write_deployment(
    folder: str | os.PathLike[str],
    task: Task,
    parties: Sequence[str],
    *,
    host: str,
    port: int = 8443,
    certificates: bool = False,
) -> Path:
    """Write the files of a deployment.

    Parameters
    ----------
    folder : path-like
        A new folder.
    task : HullTask or LinearTask
        What is learned.
    parties : sequence of str
        Their names.
    host : str
        Name or address under which parties reach the coordinator.
    port : int, default=8443
        The published port.
    certificates : bool, default=False
        Make an authority and the coordinator's certificate as well.
    """
    top = Path(folder).resolve()
    if top.exists() and any(top.iterdir()):
        raise InvalidInputError(f"The folder '{top}' is not empty; nothing was written.")
    if not parties or len(set(parties)) != len(parties) or not all(map(_plain, parties)):
        raise InvalidInputError("'parties' must be different names of letters, digits, '-', '_'.")
    coordinator = top / "coordinator"
    coordinator.mkdir(parents=True)
    write_app(top, task.kind)
    config = run_configuration(task, top, len(parties), min_parties=len(parties))
    config["party-names"] = ",".join(parties)
    _write(top / "run.toml", _toml({**config, "out": str(top / "result"), "wait-seconds": 600.0}))
    _write(top / "README.md", README.format(task=task.name))
    _write(coordinator / "superlink.sh", SUPERLINK, executable=True)
    _write(coordinator / "submit.sh", SUBMIT.replace("{kind}", task.kind), executable=True)
    _write(coordinator / "nginx.conf", NGINX.format(host=host, port=port))
    if certificates:
        from sfumato.federated.flower.certificates import make_server_certificate

        make_server_certificate(coordinator, ["localhost", "127.0.0.1", host])
    for name in parties:
        _write_party(top / "parties" / name, name, task, host, port)
    return top


def _write_party(folder: Path, name: str, task: Task, host: str, port: int) -> None:
    folder.mkdir(parents=True)
    asked = task.estimator
    text = PARTY.format(
        name=name,
        unit=asked.unit,
        relation=asked.relation,
        epsilon=float(asked.epsilon),
        delta=float(asked.delta),
    )
    _write(folder / "party.toml", text)
    node = SUPERNODE.replace("{host}", host).replace("{port}", str(port))
    _write(folder / "supernode.sh", node, executable=True)


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    with written_aside(path) as file:
        file.write(text.encode())
    if executable:
        path.chmod(0o755)


def _plain(name: str) -> bool:
    return bool(name) and all(c.isalnum() or c in "-_" for c in name)


def _toml(values: dict[str, Any]) -> str:
    # A string, a number or a truth value is written in TOML as in JSON.

    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
