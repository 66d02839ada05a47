#!/bin/sh
# Starts the benchmark of a machine with a GPU: benchmarks/gpu.sh --help
set -eu

here=$(cd -- "$(dirname -- "$0")" && pwd)
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: $python is missing or older than 3.11; PYTHON names another one" >&2
    exit 2
fi
PYTHONPATH=$here exec "$python" -P -B -m gpu "$@"
