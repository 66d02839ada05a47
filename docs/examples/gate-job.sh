#!/bin/sh
# Runs a command only if two devices reach each other without host memory; for a prologue of Slurm, a unit or a shell.
#
#     gate-job.sh SOURCE TARGET -- COMMAND [ARGUMENT...]
#     PEERLANE_MACHINE=machine.tar.zst gate-job.sh ...     judges a capture instead of this machine
#
# The status is that of COMMAND, or 75 (EX_TEMPFAIL, sysexits.h) with the reason if they do not, or it is not known.
set -eu
if [ $# -lt 4 ] || [ "$3" != -- ]; then
    echo "usage: $0 SOURCE TARGET -- COMMAND [ARGUMENT...]" >&2
    exit 64
fi
source=$1 target=$2
shift 3
# With `--route p2p`, a route through host memory is a refusal.
if ! peerlane plan "$source" "$target" --route p2p ${PEERLANE_MACHINE:+--machine "$PEERLANE_MACHINE"} >&2; then
    echo "$0: not started; peerlane doctor $source $target names the obstacles and their fixes" >&2
    exit 75
fi
exec "$@"
