"""A worker whose forward+backward takes a given share longer: what false_alarms.py must find.

    python slowed_worker.py SHARE WORKER_ROOT JOB EVENTS

After each iteration it waits for the framework, then keeps a processor busy for SHARE of the time
that the iteration took.
"""

import sys
import time

sys.path.insert(0, sys.argv[2])

from netdyno_worker import trial

SHARE = float(sys.argv[1])
found = trial.adapter_class


def slowed(framework):
    class Slowed(found(framework)):
        def forward_backward(self):
            start = time.perf_counter()
            super().forward_backward()
            super().synchronize()
            end = time.perf_counter() + SHARE * (time.perf_counter() - start)
            while time.perf_counter() < end:
                pass

    return Slowed


trial.adapter_class = slowed
sys.exit(trial.main(sys.argv[3], sys.argv[4]))
