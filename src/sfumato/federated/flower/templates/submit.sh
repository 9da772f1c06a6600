#!/bin/sh
# Run by the coordinator, on the machine of the SuperLink, once the nodes are registered:
#   flwr supernode register PARTY.pub federation
cd "$(dirname "$0")"
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
mkdir -p "${FLWR_HOME:=$PWD/flower-home}"
export FLWR_HOME
cat > "$FLWR_HOME/config.toml" <<EOF
[superlink]
default = "federation"
[superlink.federation]
address = "127.0.0.1:8000"
root-certificates = "$PWD/ca.crt"
EOF
run=$(flwr run ../sfumato-@KIND@ federation --run-config ../run.toml --format json |
  sed -n 's/.*"run-id": *"\{0,1\}\([0-9]*\).*/\1/p')
[ -n "$run" ] || exit 1
flwr log "$run" federation
# How it ended, and why. A coordinator that is killed is missed after a minute. What parties have
# released is stored: submit again, and nobody pays twice.
exec flwr list federation --run-id "$run"
