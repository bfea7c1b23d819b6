"""Starts torch7.lua, which holds the network and the loop, and passes numbers of iterations on.

It times itself, in Lua: nothing of Python is in what it says.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from netdyno_worker.frameworks.torch7.adapter import named_installation
from netdyno_worker.frameworks.torch7.installation import child_environ, locate
from netdyno_worker.protocol import HYPERPARAMETERS

SCRIPT = Path(__file__).with_suffix(".lua")


def make(job, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    return _start("forward_backward", images, labels, parameters, HYPERPARAMETERS)


def make_train_step(job, images, labels, parameters):
    """The same for train steps."""
    return _start("train_step", images, labels, parameters, job.hyperparameters)


def _start(phase, images, labels, parameters, hyperparameters):
    folder = Path(tempfile.mkdtemp())  # in the trial's scratch folder, which is deleted
    images.tofile(folder / "images")
    labels.tofile(folder / "labels")
    with (folder / "parameters").open("wb") as file:
        for value in parameters:
            value.tofile(file)
    place = locate(named_installation(), os.environ)
    process = subprocess.Popen(
        [place.interpreter, str(SCRIPT), phase, *map(str, hyperparameters)],
        env=child_environ(place, os.environ),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(iterations):
        process.stdin.write(f"{iterations}\n")
        process.stdin.flush()
        seconds, loss = process.stdout.readline().split()
        return float(seconds), float(loss)

    return run
