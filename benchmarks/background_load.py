"""Somebody else's program: bursts of work on one core, at times that nobody can foresee.

python background_load.py SEED     runs until it is ended

Bursts of 0.2 to 3 s come 1 to 15 s apart: one core is taken for about a sixth of the time.
"""

import random
import sys
import time

draw = random.Random(int(sys.argv[1]))
while True:
    time.sleep(draw.uniform(1, 15))
    end = time.monotonic() + draw.uniform(0.2, 3)
    while time.monotonic() < end:
        pass
