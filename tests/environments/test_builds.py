"""Making, checking and mending environments, without a network."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
from pathlib import Path

import pytest

from netdyno.environments import accelerators, find, inspect, managed
from netdyno.environments.builds import Built, Wish, build_all
from netdyno.environments.environment import lock_file
from netdyno.environments.marker import marker_path
from netdyno.environments.processes import Outcome
from netdyno.errors import NetdynoError
from netdyno.frameworks import FrameworkSpec, framework
from netdyno.host.devices import Gpu
from netdyno.settings import Settings, load_settings

from .conftest import FakeProcesses

BAD_IMPORT = Outcome(1, ("Traceback", "ImportError: libtoy.so.1 is missing"))
CUDA_ONLY = Outcome(1, ("ERROR: ResolutionImpossible", "The user requested nvidia-toy<0"))


def build(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses, wish: Wish | None = None
) -> tuple[Built, list[str]]:
    said: list[str] = []
    processes.calls.clear()
    (built,) = build_all(
        [spec], settings, wish or Wish(), lambda _, message: said.append(message), processes
    )
    return built, said


def test_made_then_only_checked(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    with pytest.raises(NetdynoError, match="has not been made; run `netdyno setup toy`"):
        find(spec, settings)
    built, said = build(spec, settings, processes)
    assert (built.action, built.framework_version, built.error) == ("made", "1.0", "")
    assert processes.calls == ["venv", "pip install", "import"]
    assert processes.constraints == ["helper==2.0", "nvidia-toy<0"]
    assert said[-1].startswith("ready (1.0, ")
    found = find(spec, settings)
    assert found.managed
    assert found.packages["Helper"] == "2.0"

    built, _ = build(spec, settings, processes)
    assert (built.action, processes.calls) == ("checked", ["import"])


def test_only_the_requirements_where_it_says_so(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    build(spec, settings, processes)
    assert not processes.without_dependencies
    alone = dataclasses.replace(spec, dependencies=False)
    assert inspect(alone, settings).state == "stale"
    build(alone, settings, processes)
    assert processes.without_dependencies
    assert processes.constraints == ["helper==2.0", "nvidia-toy<0"]
    assert inspect(alone, settings).ready


def test_interrupted_is_noticed_and_made_again(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    build(spec, settings, processes)
    folder = settings.environments / "toy"
    marker_path(folder).unlink()
    (folder / "half-unpacked").touch()
    with pytest.raises(NetdynoError, match="did not finish; run `netdyno setup toy`"):
        find(spec, settings)
    built, said = build(spec, settings, processes)
    assert built.action == "made"
    assert "incomplete" in said[0]
    assert not (folder / "half-unpacked").exists()
    assert inspect(spec, settings).ready


def test_changed_requirements_or_lock_make_it_stale(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    build(spec, settings, processes)
    newer = dataclasses.replace(spec, requirements={"cpu": ("toy==1.1",)})
    assert inspect(newer, settings).state == "stale"
    assert inspect(dataclasses.replace(spec, python_versions=("2.7",)), settings).state == "stale"
    lock = spec.folder / "lock-cpu.txt"
    lock.write_text(lock.read_text().replace("2.0", "2.1"))
    with pytest.raises(NetdynoError, match="stale"):
        find(spec, settings)
    assert build(spec, settings, processes)[0].action == "made"
    assert inspect(spec, settings).ready


@pytest.mark.parametrize("content", ["{", '{"schema_version": 99}', '{"schema_version": 1}', "[]"])
def test_marker_that_cannot_be_read_makes_it_stale(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses, content: str
) -> None:
    build(spec, settings, processes)
    marker_path(settings.environments / "toy").write_text(content)
    assert inspect(spec, settings).state == "stale"


def test_interpreter_that_is_gone_or_another_breaks_it(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    build(spec, settings, processes)
    folder = settings.environments / "toy"
    data = json.loads(marker_path(folder).read_text())
    marker_path(folder).write_text(json.dumps({**data, "python_version": "3.1.4"}))
    assert "3.1.4" in inspect(spec, settings).problem
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to("/nonexistent/python")
    assert inspect(spec, settings).state == "broken"
    assert build(spec, settings, processes)[0].action == "made"
    assert inspect(spec, settings).ready


def test_failing_import_is_mended_once_then_reported(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    build(spec, settings, processes)
    processes.imports = [BAD_IMPORT]
    built, said = build(spec, settings, processes)
    assert built.action == "made"
    assert any("making it again" in line for line in said)
    processes.imports = [BAD_IMPORT, BAD_IMPORT]
    built, _ = build(spec, settings, processes)
    assert built.action == "failed"
    assert "libtoy.so.1" in built.error
    assert processes.calls.count("pip install") == 1
    assert built.environment.state == "interrupted"


def test_rebuild_and_other_accelerator(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    build(spec, settings, processes)
    assert build(spec, settings, processes, Wish(rebuild=True))[0].action == "made"
    built, _ = build(spec, settings, processes, Wish(accelerator="cuda"))
    assert (built.action, built.environment.accelerator) == ("made", "cuda")
    assert processes.constraints == []
    # What was chosen is kept, though this host would get the CPU build by default.
    assert build(spec, settings, processes)[0].action == "checked"


def test_gpu_host_gets_the_cuda_build(
    spec: FrameworkSpec,
    settings: Settings,
    processes: FakeProcesses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accelerators, "has_nvidia_gpu", lambda: True)
    assert build(spec, settings, processes)[0].environment.accelerator == "cuda"


def test_gpu_that_the_cuda_build_has_no_code_for(
    spec: FrameworkSpec,
    settings: Settings,
    processes: FakeProcesses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accelerators, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(accelerators, "gpus", lambda: (Gpu("new", compute_capability="9.0"),))
    spec = dataclasses.replace(spec, cuda_newest_capability=8.6)
    built, said = build(spec, settings, processes)
    assert built.environment.accelerator == "cpu"
    assert "compute capability 9.0" in said[0]


def test_cpu_build_is_not_taken_for_a_cuda_build(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    processes.imports = [Outcome(0, ('netdyno-version ["1.0+cpu", "3.11.7"]',))]
    built, _ = build(spec, settings, processes, Wish(accelerator="cuda"))
    assert "pip found the CPU build 1.0+cpu" in built.error
    assert "netdyno setup toy --accelerator cpu" in built.error


def test_uv_is_asked_when_pip_finds_only_cuda(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    processes.install = CUDA_ONLY
    built, _ = build(spec, settings, processes)
    assert built.action == "made"
    assert processes.calls == ["venv", "pip install", "uv pip install", "import"]
    processes.uv = Outcome(2, ("error: no route",))
    built, _ = build(spec, settings, processes, Wish(rebuild=True))
    assert "no CPU build of toy==1.0" in built.error
    assert "no route" in built.error
    processes.calls.clear()
    build(dataclasses.replace(spec, cpu_fallback=""), settings, processes, Wish(rebuild=True))
    assert "uv pip install" not in processes.calls


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("ERROR: No matching distribution found for toy", "a mirror may lack it"),
        ("NewConnectionError: Failed to establish a new connection", "mirror"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
    ],
)
def test_pip_failure_says_what_to_do(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses, line: str, advice: str
) -> None:
    processes.install = Outcome(1, (line,))
    built, said = build(spec, settings, processes)
    assert advice in built.error
    assert line in built.error
    assert "setup-toy.log" in said[-1]
    assert "uv pip install" not in processes.calls


def test_lock_is_written_portably_and_used(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    processes.packages["Extra"] = "3.0+local"
    built, _ = build(spec, settings, processes, Wish(update_lock=True))
    assert built.action == "made"
    assert processes.constraints == ["nvidia-toy<0"]
    lines = (spec.folder / "lock-cpu.txt").read_text().splitlines()
    assert lines[1:] == ["Extra==3.0", "Helper==2.0"]
    assert inspect(spec, settings).ready
    build(spec, settings, processes, Wish(rebuild=True))
    assert processes.constraints == ["Extra==3.0", "Helper==2.0", "nvidia-toy<0"]


def test_lock_of_another_python_is_left_aside(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    (spec.folder / "lock-cpu.txt").write_text("# Made with Python 2.7 by hand\nhelper==2.0\n")
    _, said = build(spec, settings, processes)
    assert processes.constraints == ["nvidia-toy<0"]
    assert any("no lock for Python" in line for line in said)


def test_second_setup_waits_for_the_first(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    settings.environments.mkdir(parents=True)
    (settings.environments / "toy").mkdir()
    lock = lock_file(spec, settings)
    lock.acquire()
    assert "by another" in inspect(spec, settings).problem
    waiting = threading.Event()
    said: list[str] = []

    def report(_: str, message: str) -> None:
        said.append(message)
        waiting.set()

    results: list[Built] = []
    thread = threading.Thread(
        target=lambda: results.extend(build_all([spec], settings, Wish(), report, processes))
    )
    thread.start()
    assert waiting.wait(10)
    assert processes.calls == []
    lock.release()
    thread.join(10)
    assert said[0].startswith("waiting for another")
    assert results[0].action == "made"


def test_one_failure_stops_no_other(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses
) -> None:
    other = dataclasses.replace(spec, name="none", requirements={})
    built = build_all([other, spec], settings, Wish(), lambda *_: None, processes)
    assert [b.action for b in built] == ["failed", "made"]


def test_existing_interpreter_is_only_checked(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses, tmp_path: Path
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho 3.9.1\n")
    script.chmod(0o755)
    given = dataclasses.replace(settings, python={"toy": script})
    assert find(spec, given).python_version == "3.9.1"
    built, _ = build(spec, given, processes)
    assert (built.action, processes.calls) == ("checked", ["import"])
    processes.imports = [BAD_IMPORT]
    built, _ = build(spec, given, processes)
    assert "installs nothing" in built.error
    assert "--rebuild" in build(spec, given, processes, Wish(rebuild=True))[0].error
    script.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(NetdynoError, match="does not run; name another with --python toy=PATH"):
        find(spec, given)


def test_controller_frameworks_need_nothing(settings: Settings, processes: FakeProcesses) -> None:
    assert find(framework("numpy"), settings).kind == "controller"
    assert build(framework("numpy"), settings, processes)[0].action == "checked"


def test_unwritable_home(spec: FrameworkSpec, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NetdynoError, match=r"cannot write to .* set NETDYNO_HOME"):
        build_all([spec], Settings(tmp_path / "file" / "home"), Wish(), lambda *_: None)


def test_full_disk(
    spec: FrameworkSpec,
    settings: Settings,
    processes: FakeProcesses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(managed, "_FREE_BYTES_NEEDED", {"cpu": 10**30})
    built, _ = build(spec, settings, processes)
    assert "GB are free" in built.error
    assert processes.calls == []


def test_folder_that_is_a_link_is_not_deleted(
    spec: FrameworkSpec, settings: Settings, processes: FakeProcesses, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    settings.environments.mkdir(parents=True)
    (settings.environments / "toy").symlink_to(precious)
    assert "symbolic link" in build(spec, settings, processes)[0].error
    assert precious.is_dir()


@pytest.mark.integration
def test_real_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real interpreter search
    monkeypatch.setenv("NETDYNO_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "leak"))
    (tmp_path / "leak").mkdir()
    (tmp_path / "leak" / "mxnet.py").write_text("raise ImportError('the wrong one')")
    (built,) = build_all([framework("mxnet")], load_settings(), Wish("cpu"), lambda *_: None)
    assert built.error == ""
    assert find(framework("mxnet"), load_settings()).framework_version == "1.9.1"
    shutil.rmtree(tmp_path / "environments")
