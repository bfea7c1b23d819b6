"""One trial in a process of its own: how it ends, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from netdyno import session
from netdyno.environments import Environment
from netdyno.outcome import Outcome
from netdyno.plan.cell import Cell
from netdyno.plan.job import job
from netdyno.plan.sampling import Sampling
from netdyno.redact import Redactor
from netdyno.store.run_folder import RunFolder

Trial = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(session, "GRACE_SECONDS", 0.3)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event":"trial"}\n')
    return path


@pytest.fixture
def trial(
    make_cell: Callable[..., Cell], quick: Sampling, here: Environment, events: Path
) -> Trial:
    """``trial("hang", timeout_seconds=1)``: the outcome of a null cell in that mode."""

    def run(mode: str = "steady", timeout_seconds: float = 60.0, **options: Any) -> Outcome:
        cell = make_cell(mode=mode)
        told = {**job(cell, seed=1), "sampling": vars(quick)}
        return session.run_trial(
            cell,
            here,
            told,
            events,
            timeout_seconds=timeout_seconds,
            redact=options.pop("redact", Redactor({})),
            **options,
        )

    return run


def read(events: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in events.read_text().splitlines()]


def alive(pid: int) -> bool:
    """A zombie is dead: where process 1 reaps nobody it stays in the table."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pid: int, seconds: float = 5.0) -> bool:
    limit = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.02)
    return not alive(pid)


@pytest.mark.parametrize("mode", ["steady", "drift", "leak", "garbage"])
def test_a_good_trial(trial: Trial, events: Path, mode: str) -> None:
    outcome = trial(mode)
    assert (outcome.status, outcome.reason) == ("ok", "")
    assert outcome.seconds > 0
    told = read(events)  # every line is JSON, garbage on the worker's stdout or not
    assert [event["event"] for event in told if event["event"] != "block"] == [
        *("trial", "started", "built", "machine", "machine", "machine"),
        *("fingerprint", "loss", "finished"),
    ]
    blocks = [event for event in told if event["event"] == "block"]
    phases = list(dict.fromkeys(block["phase"] for block in blocks))
    assert phases == ["forward_backward", "forward", "train_step"]
    for phase in phases:
        kinds = [block["kind"] for block in blocks if block["phase"] == phase]
        assert kinds[0] == "first"
        assert set(kinds[1:-2]) <= {"warmup", "sample"}
        assert kinds[-2:] == ["sample", "sample"]


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("raise", "failed", "RuntimeError: told to raise"),
        ("oom", "out_of_memory", "MemoryError: told to run out of memory"),
        ("diverge", "diverged", "the loss after the last phase is not finite"),
        ("crash", "failed", "killed by signal 11 (SIGSEGV)"),
        ("killed", "failed", "killed by signal 9 (SIGKILL)"),
    ],
)
def test_a_bad_trial(trial: Trial, mode: str, status: str, reason: str) -> None:
    outcome = trial(mode)
    assert outcome.status == status
    assert outcome.reason.partition(";")[0] == reason


def test_what_a_diverging_trial_measured_is_kept(trial: Trial, events: Path) -> None:
    trial("diverge")
    assert [event["value"] for event in read(events) if event["event"] == "loss"] == [None]
    assert any(event.get("kind") == "sample" for event in read(events))


def test_a_framework_that_cannot_express_the_network_is_skipped(
    trial: Trial, worker: Callable[[str], None]
) -> None:
    worker(
        """
        import sys
        with open(sys.argv[2], "a") as file:
            file.write('{"event":"failed","status":"skipped","reason":"no LRN here"}\\n')
        sys.exit(1)
        """
    )
    outcome = trial()
    assert (outcome.status, outcome.reason) == ("skipped", "no LRN here")


def test_a_hang_is_ended(trial: Trial, events: Path) -> None:
    outcome = trial("hang", timeout_seconds=0.8)
    assert (outcome.status, outcome.reason) == (
        "timed_out",
        "still running after 0.8 s (--trial-timeout)",
    )
    assert processes_naming(events) == []


def processes_naming(path: Path) -> list[int]:
    """Processes that have ``path`` among their arguments, as every worker has its events."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(path) in word for word in process.info["cmdline"] or ())
    ]


GRANDCHILD = """
    import os, signal, subprocess, sys, time
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-S", "-c", code])
    with open(sys.argv[2], "a") as file:
        file.write('{"event":"child","pid":%d}\\n' % child.pid)
"""


@pytest.mark.parametrize("end", ["time.sleep(600)", "sys.exit(3)", "os.kill(os.getpid(), 9)"])
def test_no_grandchild_outlives_the_trial(
    trial: Trial, worker: Callable[[str], None], events: Path, end: str
) -> None:
    worker(GRANDCHILD + "    " + end + "\n")
    outcome = trial(timeout_seconds=2.0)
    assert outcome.status in ("timed_out", "failed")
    (pid,) = [event["pid"] for event in read(events) if event["event"] == "child"]
    assert gone(pid)


def test_a_worker_that_ignores_the_polite_signal(
    trial: Trial, worker: Callable[[str], None], events: Path
) -> None:
    worker(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
        """
    )
    assert trial(timeout_seconds=0.4).status == "timed_out"
    assert processes_naming(events) == []


def test_an_interrupt_ends_the_worker_before_it_is_raised(trial: Trial, events: Path) -> None:
    seen: list[str] = []

    def interrupt(event: dict[str, Any]) -> None:
        seen.append(event["event"])
        if event["event"] == "built":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trial("hang", listener=interrupt)
    assert seen == ["started", "built"]
    assert processes_naming(events) == []


def test_another_thread_is_stopped_as_by_an_interrupt(trial: Trial, events: Path) -> None:
    stopped = threading.Event()

    def stop(event: dict[str, Any]) -> None:
        stopped.set()

    with pytest.raises(KeyboardInterrupt):
        trial("hang", listener=stop, stopped=stopped)
    assert processes_naming(events) == []


def test_a_second_interrupt_while_the_first_is_obeyed_leaves_nothing_either(
    trial: Trial, worker: Callable[[str], None], events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who presses Ctrl-C twice is impatient, and still wants the machine back."""
    worker(GRANDCHILD + "    time.sleep(600)\n")
    signal_group, pressed = session._signal_group, [KeyboardInterrupt]

    def press(process: Any, signum: int) -> bool:
        if pressed and signum == 0:  # in the wait after SIGTERM
            raise pressed.pop()
        return signal_group(process, signum)

    def interrupt(event: dict[str, Any]) -> None:
        monkeypatch.setattr(session, "_signal_group", press)
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            trial(listener=interrupt)
        assert pressed == []
        (pid,) = [event["pid"] for event in read(events) if event["event"] == "child"]
        assert gone(pid, seconds=1.0)
        assert processes_naming(events) == []
    finally:
        for event in read(events):
            if event["event"] == "child" and alive(event["pid"]):
                os.kill(event["pid"], signal.SIGKILL)


def test_the_last_words_of_a_worker_without_an_event(
    trial: Trial, worker: Callable[[str], None]
) -> None:
    worker(
        """
        import sys
        sys.stdout.buffer.write(b"\\xff\\x00 noise\\n" * 5000)
        sys.exit("libmagic.so: \\x1b[31mcannot open\\x07\\n\\n")
        """
    )
    outcome = trial()
    assert outcome.status == "failed"
    assert outcome.reason == (
        "the worker ended with exit code 1; its last words: libmagic.so: [31mcannot open"
    )


GLOG = """
F1130 23:01:02.123456 4711 layer.cpp:36] Check failed: a == b (3 vs. 4) no such luck
*** Check failure stack trace: ***
    @     0x7f0000000001  google::LogMessage::Fail()
"""
TENSORFLOW = "2026-11-30 23:01:02.123456: F core/tensor.cc:36] Check failed: a == b (3 vs. 4)\n"


@pytest.mark.parametrize("said", [GLOG + "    @ frame\n" * 500, TENSORFLOW + "Aborted\n"])
def test_what_made_it_abort_is_told_and_not_its_stack(
    trial: Trial, worker: Callable[[str], None], said: str
) -> None:
    code = f"""
        import os, sys
        sys.stderr.write("W1130 23:01:01.0 4711 net.cpp:1] Check failed: no, a warning\\n")
        sys.stderr.write({said!r})
        sys.stderr.flush()
        os.abort()
        """
    worker(code)
    outcome = trial()
    assert outcome.status == "failed"
    words = "killed by signal 6 (SIGABRT); its last words: Check failed: a == b (3 vs. 4)"
    assert outcome.reason.startswith(words)
    assert "@" not in outcome.reason


def test_an_interpreter_that_is_not_there(
    make_cell: Callable[..., Cell], events: Path, tmp_path: Path
) -> None:
    """It was there when it was looked for: removed since, or without the right to execute it."""
    environment = Environment("null", tmp_path / "nothing", "existing", "cpu", "ready")
    outcome = session.run_trial(
        make_cell(),
        environment,
        job(make_cell(), 1),
        events,
        timeout_seconds=5,
        redact=Redactor({}),
    )
    assert outcome.status == "failed"
    assert "nothing" in outcome.reason


def test_reasons_tell_no_path(trial: Trial, worker: Callable[[str], None], tmp_path: Path) -> None:
    worker(f"raise SystemExit('cannot open {tmp_path}/x')")
    outcome = trial(redact=Redactor({tmp_path: "<here>"}))
    assert outcome.reason.endswith("cannot open <here>/x")


def test_events_tell_no_path(
    worker: Callable[[str], None],
    make_cell: Callable[..., Cell],
    here: Environment,
    tmp_path: Path,
) -> None:
    """The error's own text, which the worker wrote, is in the folder that is shared."""
    worker(
        f"""
        import json, sys
        with open(sys.argv[2], "a") as file:
            for event in (
                {{"event": "fingerprint", "notes": ["read {tmp_path}/note"]}},
                {{"event": "failed", "status": "failed", "reason": "no {tmp_path}/x"}},
            ):
                file.write(json.dumps(event) + "\\n")
        sys.exit(1)
        """
    )
    redact = Redactor({tmp_path: "<here>"})
    folder = RunFolder(tmp_path / "run", redact)
    path = folder.new_trial(make_cell(), 1)
    outcome = session.run_trial(
        make_cell(), here, job(make_cell(), 1), path, timeout_seconds=60, redact=redact
    )
    folder.end_trial(path, outcome)
    assert outcome.reason == "no <here>/x"
    assert str(tmp_path) not in path.read_text()


def test_the_worker_runs_in_a_folder_that_is_removed(
    trial: Trial, worker: Callable[[str], None], events: Path
) -> None:
    worker(
        """
        import json, os, sys, tempfile
        open("left", "w").close()
        told = json.load(open(sys.argv[1]))
        at = {"event": "at", "cwd": os.getcwd(), "tmp": tempfile.gettempdir(), **told}
        with open(sys.argv[2], "a") as file:
            file.write(json.dumps(at) + "\\n")
        """
    )
    assert trial().status == "ok"
    at = read(events)[-1]
    assert Path(at["cwd"]).resolve() == Path(at["tmp"]).resolve() == Path(at["scratch"]).resolve()
    assert not Path(at["scratch"]).exists()


def test_relative_events_are_found_from_the_workers_folder(
    make_cell: Callable[..., Cell],
    quick: Sampling,
    here: Environment,
    events: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(events.parent)
    told = {**job(make_cell(), 1), "sampling": vars(quick)}
    outcome = session.run_trial(
        make_cell(), here, told, Path(events.name), timeout_seconds=60, redact=Redactor({})
    )
    assert outcome.status == "ok"
    assert read(events)[-1] == {"event": "finished"}


def test_the_listener_gets_whole_events_only(trial: Trial, worker: Callable[[str], None]) -> None:
    worker(
        """
        import sys, time
        with open(sys.argv[2], "a") as file:
            parts = '{"event":"a"}\\ngarb', 'age\\n[1]\\n{"event":', '"b"}\\n', '{"event":"cut'
            for part in parts:
                file.write(part)
                file.flush()
                time.sleep(0.1)
        """
    )
    seen: list[dict[str, Any]] = []
    assert trial(listener=seen.append).status == "ok"
    assert seen == [{"event": "a"}, {"event": "b"}]


def test_an_abort_for_lack_of_memory(trial: Trial, worker: Callable[[str], None]) -> None:
    """Caffe checks that it got what it asked for, and aborts."""
    worker(
        """
        import os, sys
        words = "syncedmem.hpp:33] Check failed: *ptr host allocation of size 150994944 failed"
        sys.stderr.write("F1201 10:00:00.123456 4711 " + words + "\\n")
        sys.stderr.flush()
        os.abort()
        """
    )
    outcome = trial()
    assert outcome.status == "out_of_memory"
    assert "host allocation of size 150994944 failed" in outcome.reason


def test_the_kernels_out_of_memory_killer(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([4, 5])
    monkeypatch.setattr(session, "_oom_kills", lambda: next(counts))
    outcome = trial("killed")
    assert (outcome.status, outcome.reason) == (
        "out_of_memory",
        "the kernel's out-of-memory killer ended it",
    )


def test_no_thread_and_no_child_is_left(trial: Trial) -> None:
    before = threading.active_count()
    trial()
    limit = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < limit:
        time.sleep(0.01)
    assert threading.active_count() <= before
    assert psutil.Process(os.getpid()).children() == []


class Watch:
    """Stands in for a GpuWatch: counts how often it was asked."""

    def __init__(self, device: str, group: int) -> None:
        self.device = device
        self.group = group
        self.samples: list[dict[str, Any]] = []

    def sample(self) -> None:
        self.samples.append({"event": "gpu", "at": time.perf_counter(), "reasons": []})


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> list[Watch]:
    """Every watch that a trial made."""
    made: list[Watch] = []

    @contextmanager
    def watching(device: str, group: int) -> Iterator[Watch]:
        made.append(Watch(device, group))
        yield made[-1]

    monkeypatch.setattr(session, "watching", watching)
    return made


def test_what_the_gpu_did_is_written_at_the_end(
    trial: Trial, worker: Callable[[str], None], events: Path, watches: list[Watch]
) -> None:
    worker(
        """
        import os, sys, time
        with open(sys.argv[2], "a") as file:
            file.write('{"event":"a","session":%d}\\n' % os.getsid(0))
            file.flush()
            time.sleep(0.4)
            file.write('{"event":"cut')
        """
    )
    assert trial().status == "ok"
    lines = events.read_text().splitlines()
    (watch,) = watches
    assert watch.device == "cpu"
    assert json.loads(lines[1]) == {"event": "a", "session": watch.group}
    assert lines[2] == '{"event":"cut'
    told = [json.loads(line) for line in lines[3:]]
    assert told == watch.samples
    assert len(told) >= 2


def test_an_interrupt_keeps_what_the_gpu_did(
    trial: Trial, worker: Callable[[str], None], events: Path, watches: list[Watch]
) -> None:
    worker(
        """
        import sys, time
        with open(sys.argv[2], "a") as file:
            while True:
                file.write('{"event":"a"}\\n')
                file.flush()
                time.sleep(0.05)
        """
    )

    def interrupt(event: dict[str, Any]) -> None:
        if watches[0].samples:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trial(listener=interrupt)
    told = [event for event in read(events) if event["event"] == "gpu"]
    assert told == watches[0].samples != []


def test_no_gpu_leaves_no_trace(trial: Trial, events: Path) -> None:
    trial()
    assert all(event["event"] != "gpu" for event in read(events))
