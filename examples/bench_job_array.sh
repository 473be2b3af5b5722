#!/bin/bash
# A grid as a Slurm job array: every task runs one part of it on a node of its own.
#   sbatch examples/bench_job_array.sh
# A task that is killed at its time limit goes on where it stopped when it is submitted again.
#SBATCH --job-name=feda3i-bench
#SBATCH --array=1-8
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=12:00:00
#SBATCH --output=bench-%A_%a.log
set -euo pipefail

GRID=${GRID:-table3}
SKIN=${SKIN:?set SKIN to the prepared skin images}
BREAST=${BREAST:?set BREAST to the prepared breast images}
PARTS=${SLURM_ARRAY_TASK_COUNT:-1}
PART=${SLURM_ARRAY_TASK_ID:-1}

# Results go to a shared folder: whole files, one per run, so that tasks cannot disturb each other.
# Run folders may lie on a disk of the node, but then a killed task begins its open runs again.
feda3i bench "$GRID" data.skin="$SKIN" data.breast="$BREAST" \
    --shard "$PART/$PARTS" --out "runs/bench" --results "results"

# When all tasks are done, on any machine:  feda3i tables results --grid table3 --out tables
