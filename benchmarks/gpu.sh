#!/usr/bin/env bash
# The check on one GPU, in under nine minutes: benchmarks/gpu.sh [PAGE] [--smoke]
# See gpu/check.py for what it measures and what it needs. PYTHON=... chooses the interpreter, COMMIT=... names a copy without .git.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
# What torch wants to have from the first product on, if a later training is to be deterministic.
export CUBLAS_WORKSPACE_CONFIG="${CUBLAS_WORKSPACE_CONFIG:-:4096:8}"
exec "${PYTHON:-python}" -m benchmarks.gpu.check "$@"
