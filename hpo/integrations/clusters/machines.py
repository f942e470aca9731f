"""A script for machines that are reached by ssh: it starts Ray on them, searches, and stops it."""

import shlex

from hpo.integrations.clusters.job import Job

_SCRIPT = """\
#!/usr/bin/env bash
# Run with: bash @file@
# It searches on this machine and on those below, or goes on where it was stopped. The same virtual environment must be
# on all of them. At its end it stops every Ray of yours there.
# The environment is yours; what ssh runs is put together here; traps call functions.
# shellcheck disable=SC1091,SC2029,SC2329
set -euo pipefail

hosts=(@hosts@)
@activate@
address="$(python -c 'import ray; print(ray.util.get_node_ip_address())'):${RAY_PORT:-6379}"
ray=$(command -v ray)

# Whoever has the token may run code in this Ray cluster: only you may read it.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hpo-job-XXXXXXXX")
token=$(umask 077 && python -c 'import secrets; print(secrets.token_hex(32))' | tee "$scratch/token")
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$scratch/token" RAY_USAGE_STATS_ENABLED=0

stop() {
  for host in "${hosts[@]}"; do
    ssh "$host" "$(printf '%q stop; rm -rf %q' "$ray" "$scratch")" || true
  done
  ray stop
  rm -rf "$scratch"
}
trap stop EXIT

ray start --head --port="${address##*:}" --node-ip-address="${address%:*}" --num-cpus=@cpus@ --disable-usage-stats
for host in "${hosts[@]}"; do
  # The token goes through ssh's input, where no other user can see it.
  ssh "$host" "$(printf 'umask 077; mkdir -p %q; cat > %q/token' "$scratch" "$scratch")" <<< "$token"
  ssh "$host" "$(printf 'RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=%q/token %q start --address=%q --num-cpus=@cpus@' \\
    "$scratch" "$ray" "$address")"
done

search() {
@commands@
}
(search) &
job=$!
# The search saves what it has at the first signal.
trap 'kill -TERM "$job"' TERM INT
code=0
while kill -0 "$job" 2> /dev/null; do
  code=0
  wait "$job" || code=$?
done
exit "$code"
"""


def script(job: Job, file: str) -> str:
    """Return the script; `file` is its name."""
    values = {
        "file": shlex.quote(file),
        "hosts": shlex.join(job.hosts),
        "activate": f". {shlex.quote(job.activate)}\n" if job.activate else "",
        "cpus": str(job.cpus),
        "commands": "\n".join(f"  {line}" for line in job.commands("$address").splitlines()),
    }
    text = _SCRIPT
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
