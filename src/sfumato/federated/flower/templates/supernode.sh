#!/bin/sh
# A party's SuperNode. Run it as a user of its own that can read the party's rows and write its
# store and ledger, and nothing else: Flower runs the code that the coordinator submits.
cd "$(dirname "$0")"
if command -v openssl >/dev/null && ! openssl x509 -checkend 0 -noout -in ca.crt >/dev/null; then
  echo "ca.crt has expired or cannot be read: the coordinator makes new certificates." >&2
  exit 1
fi
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1

stop() {
  kill "$node" 2>/dev/null
  wait "$node"
  exit 0
}
trap stop INT TERM
# Flower refuses a second session of a key for about a minute, so a node that was killed and comes
# back is started again until it is let in.
tries=0
while [ "$tries" -lt 12 ]; do
  began=$(date +%s)
  flower-supernode --superlink @HOST@:@PORT@ --root-certificates ca.crt \
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
