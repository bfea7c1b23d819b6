"""``python …/netdyno_worker/__main__.py JOB EVENTS``: run one job, write what happens.

Started by path and not with ``-m``: the environment holds a framework and knows nothing of
netdyno, and putting the folder above on the path would show it the controller's packages.
"""

import importlib.util
import os
import sys


def _load_package():
    here = os.path.dirname(os.path.abspath(__file__))
    # Python put this folder first on the path, where our numpy/ and jax/ folders' parents and
    # modules such as protocol.py could shadow others.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.util.spec_from_file_location(
        "netdyno_worker", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["netdyno_worker"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _load_package()
    from netdyno_worker import trial

    sys.exit(trial.main(sys.argv[1], sys.argv[2]))
