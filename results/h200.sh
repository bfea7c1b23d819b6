#!/bin/sh
# Measure results/h200.toml, from the root of a checkout, with the frameworks of one Python:
#
#     results/h200.sh FOLDER [LIMIT [OPTION ...]]
#
# FOLDER is the run folder: a new one, or one to go on with. LIMIT: end in order after so many
# seconds, so that a machine that is lent for a while can be given back; the same command goes on.
# OPTION: of `netdyno run`, for a new folder, such as --precision bf16.
# PYTHON: a Python that has PyTorch, JAX, Keras, tinygrad and what netdyno needs; default: python3.
set -eu
python=$(command -v "${PYTHON:-python3}")
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
folder=$1 limit=${2:-86400}
shift $(($# < 2 ? $# : 2))
if [ -e "$folder/run.json" ]; then
    set -- --resume "$folder"
else
    set -- results/h200.toml --out "$folder" "$@"
fi
exec timeout --signal=INT "$limit" "$python" -m netdyno.cli.main run "$@" --memory --compile-ahead \
    --python pytorch="$python" --python jax="$python" \
    --python keras="$python" --python tinygrad="$python"
