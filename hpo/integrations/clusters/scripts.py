"""Scripts that search a study on several machines: a batch script for Slurm, and one that reaches them by ssh."""

import shlex

from hpo.integrations.clusters.job import FILL_IN, Job

# Before the job's time is over: to save states, and to stop Ray.
_SECONDS_BEFORE = 180

_SLURM = """\
#!/usr/bin/env bash
# Submit with: sbatch @file@
# It searches, or goes on where it was stopped. When it is preempted, or its time is nearly over, trainings save their
# states, and it is queued again. `ray symmetric-run` stops every Ray of yours on its machines: they are for it alone.
@options@
# The environment is yours, and a trap calls the function.
# shellcheck disable=SC1091,SC2329
set -euo pipefail

if grep -q '^#SBATCH.*@fill_in@' "$0"; then
  echo "error: fill in what begins with @fill_in@ at the top of the script" >&2
  exit 2
fi
@activate@
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address="$head:$((20000 + SLURM_JOB_ID % 20000))"

# Whoever has the token may run code in this Ray cluster: only you may read it.
scratch=$(mktemp -d "$PWD/.hpo-job-XXXXXXXX")
trap 'rm -rf "$scratch"' EXIT
(umask 077 && python -c 'import secrets; print(secrets.token_hex(32))' > "$scratch/token")
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$scratch/token"
# Machines start at different times: wait for the head, and then for all.
export RAY_gcs_rpc_server_connect_timeout_s=600 RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=600 RAY_USAGE_STATS_ENABLED=0

cat > "$scratch/search" <<'END'
echo $$ > "$1"
address=$2
@commands@
END

told=0
tell() {
  told=1
  [ ! -e "$scratch/driver" ] || kill -TERM "$(cat "$scratch/driver")" || true
}
trap tell TERM

# The other machines are done when the head is.
srun --kill-on-bad-exit=1 --wait=30 ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" \\
  --num-cpus "$SLURM_CPUS_PER_TASK" --disable-usage-stats -- \\
  bash "$scratch/search" "$scratch/driver" "$address" &
job=$!
code=0
# A signal interrupts the first `wait`.
while kill -0 "$job" 2> /dev/null; do
  code=0
  wait "$job" || code=$?
done
if [ "$told" -eq 1 ] && [ "$code" -ne 0 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""

_MACHINES = """\
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


def slurm(job: Job, file: str) -> str:
    """Return the batch script, which has one Ray cluster on the machines of one job; `file` is its name."""
    options = {
        "job-name": job.name,
        "nodes": job.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": job.cpus,
        **({"gpus-per-node": job.gpus} if job.gpus else {}),
        "mem": job.given("memory"),
        "partition": job.given("partition"),
        "time": job.given("time"),
        "output": f"{job.name}-%j.log",
        "signal": f"B:TERM@{_SECONDS_BEFORE}",
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items()]
    lines += [f"#SBATCH --{name}" for name in ("exclusive", "requeue", "open-mode=append")]
    return _filled(_SLURM, job, file, job.commands("$address"), options="\n".join(lines), fill_in=FILL_IN)


def machines(job: Job, file: str) -> str:
    """Return the script, which starts Ray on this machine and on others, searches, and stops it."""
    commands = "\n".join(f"  {line}" for line in job.commands("$address").splitlines())
    return _filled(_MACHINES, job, file, commands, hosts=shlex.join(job.hosts), cpus=str(job.cpus))


def _filled(text: str, job: Job, file: str, commands: str, **values: str) -> str:
    activate = f". {shlex.quote(job.activate)}\n" if job.activate else ""
    # The commands last: a study's own values are not looked through.
    for name, value in {"file": shlex.quote(file), "activate": activate, **values, "commands": commands}.items():
        text = text.replace(f"@{name}@", value)
    return text
