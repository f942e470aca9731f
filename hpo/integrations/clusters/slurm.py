"""A batch script for Slurm: one Ray cluster on the machines of one job."""

import shlex

from hpo.integrations.clusters.job import FILL_IN, Job

# Before the job's time is over: to save states, and to stop Ray.
_SECONDS_BEFORE = 180

_SCRIPT = """\
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


def script(job: Job, file: str) -> str:
    """Return the script; `file` is its name."""
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
    values = {
        "file": shlex.quote(file),
        "options": "\n".join(lines),
        "fill_in": FILL_IN,
        "activate": f". {shlex.quote(job.activate)}\n" if job.activate else "",
        "commands": job.commands("$address"),
    }
    text = _SCRIPT
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
