#!/usr/bin/env bash
# The check on one GPU, in under nine minutes: benchmarks/gpu.sh [PAGE] [--smoke]
# See gpu.py for what it measures and what it needs. PYTHON=... chooses the interpreter, COMMIT=... names a copy without .git.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python}" "$root/benchmarks/gpu.py" "$@"
