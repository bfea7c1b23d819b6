#!/bin/sh
# Measure PLAN, such as results/h200.toml, from the root of a checkout, with one Python's frameworks:
#
#     results/h200.sh PLAN FOLDER [LIMIT]
#
# FOLDER is the run folder: a new one, or one to go on with. LIMIT: end in order after so many
# seconds, so that a machine that is lent for a while can be given back; the same command goes on.
# PYTHON: a Python that has PyTorch, JAX, Keras, tinygrad and what netdyno needs; default: python3.
set -eu
if [ $# -lt 2 ]; then
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
python=$(command -v "${PYTHON:-python3}")
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
plan=$1 folder=$2 limit=${3:-86400}
if [ -e "$folder/run.json" ]; then
    set -- --resume "$folder"
else
    set -- "$plan" --out "$folder"
fi
exec timeout --signal=INT "$limit" "$python" -m netdyno.cli.main run "$@" --memory --compile-ahead \
    --python pytorch="$python" --python jax="$python" \
    --python keras="$python" --python tinygrad="$python"
