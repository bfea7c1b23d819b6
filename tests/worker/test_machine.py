"""The machine's counters, read from folders that look like the kernel's."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from netdyno_worker.machine import Machine, Reading

# user nice system idle iowait irq softirq steal guest guest_nice
STAT = """cpu  100 2 30 999 888 4 5 60 70 80
cpu0 40 1 10 500 400 2 1 20 70 0
cpu1 60 1 20 499 488 2 4 40 0 80
intr 12345 1 2 3
ctxt 99
"""
VMSTAT = "nr_free_pages 1\npswpin 7\npswpout 5\npgfault 100\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    folder.mkdir()
    (folder / "stat").write_text(STAT)
    (folder / "vmstat").write_text(VMSTAT)
    return folder


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``cores(0, 1)``: those that this process may use; a tick is 10 ms."""
    monkeypatch.setattr(os, "sysconf", lambda name: 100)

    def use(*usable: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(usable), raising=False)

    use(0, 1)
    return use


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.usefixtures("cores")
def test_busy_is_all_but_idle_iowait_and_steal(proc: Path, tmp_path: Path) -> None:
    reading = Machine(str(proc), str(tmp_path / "none")).read()
    # Guests' time is within user and nice.
    assert reading.machine_busy_seconds == pytest.approx(1.41)
    assert reading.steal_seconds == pytest.approx(0.6)
    assert reading.swapped_pages == 12
    assert reading.throttles is None


def test_only_cores_that_the_process_may_use(
    proc: Path, tmp_path: Path, cores: Callable[..., None]
) -> None:
    cores(1)
    machine = Machine(str(proc), str(tmp_path / "none"))
    assert machine.read().machine_busy_seconds == pytest.approx(0.87)
    assert machine.read().steal_seconds == pytest.approx(0.4)
    assert machine.facts()["cores"] == 1


@pytest.mark.usefixtures("cores")
def test_each_reading_is_fresh_and_the_difference_is_told(proc: Path, tmp_path: Path) -> None:
    machine = Machine(str(proc), str(tmp_path / "none"))
    before = machine.read()
    (proc / "stat").write_text(STAT.replace("cpu  100", "cpu  150"))
    (proc / "vmstat").write_text(VMSTAT.replace("pswpin 7", "pswpin 107"))
    told = machine.read().since(before)
    assert told["machine_busy_seconds"] == pytest.approx(0.5)
    assert told["steal_seconds"] == 0
    assert told["swapped_pages"] == 100
    assert told["throttles"] is None
    assert told["stretch_seconds"] > 0
    assert told["own_busy_seconds"] >= 0
    machine.close()
    assert machine.read().machine_busy_seconds is None


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("text", ["", "cpu\n", "cpu 1 2 3\n", "nothing of the kind\n"])
def test_what_the_system_does_not_tell_is_none(tmp_path: Path, text: str) -> None:
    put(tmp_path / "stat", text)
    machine = Machine(str(tmp_path), str(tmp_path / "none"))
    assert machine.read()[2:] == (None,) * 5
    assert machine.facts() == {"cores": 2, "physical_cores": None, "mhz": None}


def test_no_proc_at_all(tmp_path: Path) -> None:
    reading = Machine(str(tmp_path / "a"), str(tmp_path / "b")).read()
    assert reading[2:] == (None,) * 5
    assert set(reading.since(reading).values()) == {0, None}


def test_throttling_is_counted_once_for_hardware_threads_and_packages(
    proc: Path, tmp_path: Path, cores: Callable[..., None]
) -> None:
    cores(0, 1, 2)  # 0 and 1 share a core; 3 may not be used
    for cpu, (core, count) in enumerate([(0, 5), (0, 5), (1, 7), (2, 900)]):
        folder = tmp_path / "cpu" / f"cpu{cpu}"
        put(folder / "topology" / "physical_package_id", "0\n")
        put(folder / "topology" / "core_id", f"{core}\n")
        put(folder / "topology" / "thread_siblings_list", "0-1\n" if core == 0 else f"{cpu}\n")
        put(folder / "thermal_throttle" / "core_throttle_count", f"{count}\n")
        put(folder / "thermal_throttle" / "package_throttle_count", "100\n")
        put(folder / "cpufreq" / "scaling_cur_freq", f"{(cpu + 1) * 1_000_000}\n")
    machine = Machine(str(proc), str(tmp_path / "cpu"))
    assert machine.read().throttles == 5 + 7 + 100
    assert machine.facts() == {"cores": 3, "physical_cores": 2, "mhz": 2000.0}


def test_the_clock_from_cpuinfo(proc: Path, tmp_path: Path, cores: Callable[..., None]) -> None:
    cores(0, 2)
    lines = [f"processor\t: {cpu}\ncpu MHz\t\t: {1000 * (cpu + 1)}.5\n" for cpu in range(3)]
    put(proc / "cpuinfo", "\n".join(lines))
    assert Machine(str(proc), str(tmp_path / "none")).facts()["mhz"] == 2000.5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_this_machine() -> None:
    """Work of this process is within what the machine is said to have done."""
    machine = Machine()
    before = machine.read()
    while machine.read().own_busy_seconds - before.own_busy_seconds < 0.3:
        sum(range(1000))
    told = machine.read().since(before)
    assert isinstance(before, Reading)
    assert told["machine_busy_seconds"] >= 0.3 - 0.05  # ticks
    assert told["own_busy_seconds"] >= 0.3
    assert machine.facts()["cores"] == len(os.sched_getaffinity(0))
    machine.close()
