"""What is known of each framework without importing it."""

from __future__ import annotations

import re
import sys

import pytest

from netdyno.errors import NetdynoError
from netdyno.frameworks import WORKER_ROOT, FrameworkSpec, framework, frameworks
from netdyno.plan.cell import PRECISIONS
from netdyno.plan.matrix import LAYOUTS

every = pytest.mark.parametrize("spec", frameworks().values(), ids=list(frameworks()))


def test_in_alphabetical_order() -> None:
    assert list(frameworks()) == sorted(frameworks())
    assert {"jax", "mxnet", "null", "numpy", "pytorch", "tensorflow"} <= frameworks().keys()


def test_yardsticks_and_rarities_are_measured_on_request_only() -> None:
    asked = {name for name, spec in frameworks().items() if spec.on_request_only}
    assert asked == {"caffe", "keras", "null", "numpy", "tinygrad", "torch7"}


@every
def test_its_names_exist(spec: FrameworkSpec) -> None:
    assert spec.title
    assert set(spec.devices) <= {"cpu", "cuda"}
    assert "cpu" in spec.devices
    assert set(spec.precisions) <= set(PRECISIONS)
    assert spec.startup_seconds > 0
    assert all(re.fullmatch(r"3\.\d+", version) for version in spec.python_versions)
    assert spec.default_mode == next(iter(spec.modes))
    for mode in spec.modes.values():
        assert mode.layouts
        assert set(mode.layouts) <= set(LAYOUTS)
        assert set(mode.needs) <= {"c++", "clang"}


@every
def test_its_adapter_stands_beside_it(spec: FrameworkSpec) -> None:
    assert spec.folder == WORKER_ROOT / "frameworks" / spec.name
    for name in ("__init__.py", "adapter.py", "framework.toml"):
        assert (spec.folder / name).is_file()
    assert not spec.import_first or (spec.folder / spec.import_first).is_file()
    if spec.external:
        assert (spec.folder / "installation.py").is_file()
        assert (WORKER_ROOT.parents[1] / spec.external).is_file()


@every
def test_it_can_be_installed_or_needs_no_installation(spec: FrameworkSpec) -> None:
    if spec.controller_interpreter:
        assert not spec.requirements
        assert "{}.{}".format(*sys.version_info) in spec.python_versions
    else:
        # What netdyno cannot install for a device, an interpreter of the person's own may have.
        assert "cpu" in spec.requirements
        assert set(spec.requirements) <= set(spec.devices)
        for requirements in spec.requirements.values():
            assert "==" in requirements[0]


def test_no_framework_is_imported_to_tell() -> None:
    assert not {"mxnet", "tensorflow", "torch", "jax", "caffe", "tinygrad"} & sys.modules.keys()


def test_names_that_do_not_exist() -> None:
    with pytest.raises(NetdynoError, match=r"unknown framework 'mxnte'; did you mean mxnet\?"):
        framework("mxnte")
    with pytest.raises(NetdynoError, match=r"unknown framework 'theano'"):
        framework("theano")
    with pytest.raises(NetdynoError, match=r"unknown mode of pytorch 'compiled'.*compile"):
        framework("pytorch").mode("compiled")


def test_a_mode_by_its_name() -> None:
    assert framework("pytorch").mode("compile").needs == ("c++",)
    assert framework("tensorflow").mode("xla").first_iteration_seconds > 0
