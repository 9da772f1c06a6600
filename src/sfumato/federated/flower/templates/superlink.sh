#!/bin/sh
# The coordinator's SuperLink. It listens on loopback only: nginx.conf publishes the part that
# nodes need. Its control interface has no login, so whoever reaches it can run code at the nodes.
cd "$(dirname "$0")"
if command -v openssl >/dev/null && ! openssl x509 -checkend 0 -noout -in server.pem >/dev/null; then
  echo "server.pem has expired or cannot be read: the coordinator makes new certificates." >&2
  exit 1
fi
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1

exec flower-superlink --host 127.0.0.1 --port 8000 --database superlink.db \
  --ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key \
  --enable-supernode-auth --disable-runtime-dependency-installation
