"""Stand-ins for scikit-image and SciPy where they are absent; to be run before ``import caffe``.

``caffe/io.py`` imports them at its top, to read and resize pictures. netdyno does neither.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any

# What caffe/io.py names: package, module in it, function of that module.
WANTED = (
    ("skimage", "io", "imread"),
    ("skimage", "transform", "resize"),
    ("scipy", "ndimage", "zoom"),
)


def _absent(*_: Any, **__: Any) -> None:
    raise ImportError("scikit-image and SciPy are not installed beside this Caffe")


def _put(package: str, module: str, function: str) -> None:
    parent = sys.modules.setdefault(package, types.ModuleType(package))
    child = types.ModuleType(package + "." + module)
    setattr(child, function, _absent)
    setattr(parent, module, child)
    sys.modules[child.__name__] = child


def _is_absent(package: str) -> bool:
    return package not in sys.modules and importlib.util.find_spec(package) is None


for _wanted in [wanted for wanted in WANTED if _is_absent(wanted[0])]:
    _put(*_wanted)
