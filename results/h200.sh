#!/bin/sh
# Measure results/h200.toml, from the root of a checkout, with the frameworks of one Python:
#
#     results/h200.sh FOLDER [LIMIT]
#
# FOLDER is the run folder: a new one, or one to go on with. LIMIT: end in order after so many
# seconds, so that a machine that is lent for a while can be given back; the same command goes on.
# PYTHON: a Python that has PyTorch, JAX, Keras, tinygrad and what netdyno needs; default: python3.
set -eu
python=$(command -v "${PYTHON:-python3}")
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
if [ -e "$1/run.json" ]; then
    set -- "${2:-86400}" --resume "$1"
else
    set -- "${2:-86400}" results/h200.toml --out "$1"
fi
limit=$1
shift
exec timeout --signal=INT "$limit" "$python" -m netdyno.cli.main run "$@" --memory --compile-ahead \
    --python pytorch="$python" --python jax="$python" \
    --python keras="$python" --python tinygrad="$python"
