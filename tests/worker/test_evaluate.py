"""evaluate_framework around a model that only counts; the frameworks are in tests/integration."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netdyno
from netdyno_worker import clock, evaluate, own_model
from netdyno_worker.evaluate import EvaluationError, evaluate_framework
from netdyno_worker.memory import Reported
from netdyno_worker.own_model import OwnModel

ROOT = Path(__file__).parents[2]
COMPILE_SECONDS = 100.0
STEP_SECONDS = 1.0
MODEL_BYTES = 7_300_000


class Model:
    """A person's model: ``state`` is what training changes."""

    def __init__(self) -> None:
        self.state = 0
        self.calls: list[str] = []

    def __call__(self) -> None:
        """Models are called; nothing here does."""


class Time:
    """Stands still but for the work that ``Counting`` does."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


class Counting(OwnModel):
    title = "Counting"
    roots = frozenset({__name__.partition(".")[0]})
    time = Time()

    def __init__(self, model: Any, device: str, loss: Any, parameters: Any) -> None:
        self.model = model
        self.device = device
        self.compiled: set[tuple[int, ...]] = set()

    def put(self, images: Any, labels: Any) -> tuple[Any, Any]:
        self.model.calls.append("put")
        return images, labels

    def snapshot(self, batch: tuple[Any, Any]) -> None:
        self.kept = self.model.state

    def forward_backward(self, batch: tuple[Any, Any]) -> None:
        self.model.calls.append(f"forward_backward {batch[0].flat[0]:g}")
        self.time.seconds += STEP_SECONDS / 2

    def train_step(self, batch: tuple[Any, Any]) -> None:
        if batch[0].shape not in self.compiled:
            self.compiled.add(batch[0].shape)
            self.time.seconds += COMPILE_SECONDS
        self.model.state += 1
        self.model.calls.append("train_step")
        self.time.seconds += STEP_SECONDS

    def reported(self, batch: tuple[Any, Any]) -> Reported | None:
        self.model.calls.append("reported")
        return Reported(MODEL_BYTES, "static plan", "the model", "and nothing else")

    def synchronize(self) -> None:
        self.model.calls.append("synchronize")

    def loss(self) -> float:
        return float("nan")

    def restore(self) -> None:
        self.model.state = self.kept


class Function(Counting):
    title = "Function"
    roots = frozenset({"builtins"})
    is_function = True

    @classmethod
    def accepts(cls, model: Any) -> bool:
        return model is len

    def __init__(self, model: Any, device: str, loss: Any, parameters: Any) -> None:
        super().__init__(Model(), device, loss, parameters)


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", Counting.time.now)
    kinds = {"counting": Counting, "function": Function}
    monkeypatch.setattr(evaluate, "own_models", lambda: kinds)


def batches(*sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (np.full((size, 3), index, np.float32), np.zeros(size, np.int64))
        for index, size in enumerate(sizes)
    ]


def measure(loader: Any = None, **words: Any) -> dict[str, Any]:
    model = words.pop("model", None) or Model()
    return evaluate_framework(model, loader or batches(4, 4, 2), **{"batch_size": 4, **words})


def test_the_result() -> None:
    model = Model()
    assert measure(model=model) == {
        "forward_backward_time": STEP_SECONDS / 2,
        "memory_mb": MODEL_BYTES / 1e6,
        "memory_source": "static plan, the model: and nothing else",
        "epoch_time": 3 * STEP_SECONDS,
        "framework": "counting",
        "device": "cpu",
        "batch_size": 4,
        "batches": 3,
        "images": 10,
        "loss": None,
    }
    assert model.state == 0


def test_memory_is_measured_after_everything_is_timed() -> None:
    model = Model()
    measure(model=model)
    assert model.calls.count("reported") == 1
    assert model.calls[-1] == "reported"


def test_memory_that_cannot_be_measured_costs_no_time_that_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: Any, batch: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Counting, "reported", fail)
    model = Model()
    result = measure(model=model)
    assert result["memory_mb"] is None
    assert result["memory_source"] == "OSError: no space left"
    assert result["epoch_time"] == 3 * STEP_SECONDS
    assert model.state == 0


def test_a_pass_ends_in_one_synchronize_and_compiles_outside_the_time() -> None:
    model = Model()
    own = Counting(model, "cpu", None, None)
    loader = batches(4, 4, 2)
    first, second = evaluate.time_passes(own, loader, loader[0], passes=2)
    assert first == second == evaluate.Pass(3 * STEP_SECONDS, 3, 10)
    # Two compilations; the second pass has nothing left to compile.
    assert Counting.time.seconds >= 2 * COMPILE_SECONDS
    assert model.calls[-8:] == ["synchronize", *["put", "train_step"] * 3, "synchronize"]


def test_passes_are_averaged() -> None:
    class Growing:
        """Longer by a batch each time; the first two times are not training passes."""

        def __init__(self) -> None:
            self.times = 0

        def __iter__(self) -> Any:
            self.times += 1
            return iter(batches(*[4] * self.times))

    result = measure(Growing(), passes=3)
    assert (result["epoch_time"], result["batches"]) == (3 * STEP_SECONDS, 4)


def test_forward_backward_takes_turns_with_full_batches() -> None:
    model = Model()
    measure(batches(4, 4, 4, 2), model=model)
    seen = [call.split()[1] for call in model.calls if call.startswith("forward_backward")]
    assert seen[:5] == ["0", "1", "2", "0", "1"]


def test_the_model_is_put_back_when_training_fails() -> None:
    class Failing(list[Any]):
        times = 0

        def __iter__(self) -> Any:
            self.times += 1
            yield from batches(4, 4)
            if self.times > 1:
                raise OSError("no such image")

    model = Model()
    with pytest.raises(OSError, match="no such image"):
        measure(Failing([0]), model=model)
    assert model.calls.count("train_step") == 3
    assert model.state == 0


def test_a_function_has_its_parameters_beside_it() -> None:
    assert measure(model=len, parameters=[1])["framework"] == "function"


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown model": (
        {"model": functools.partial(len)},
        "framework of a functools.partial",
    ),
    "no model": ({"model": 3}, "cannot tell the framework of a builtins.int"),
    "generator": ({"loader": (b for b in batches(4))}, "a generator, which can be .* once only"),
    "not iterable": ({"loader": 3}, "a int, which cannot be iterated over"),
    "not a pair": (
        {"loader": [np.ones((4, 3))]},
        "batch 0 of data_loader is a ndarray: give pairs",
    ),
    "no labels": ({"loader": [(np.ones((4, 3)),)]}, "is a tuple of 1: give pairs"),
    "lists": ({"loader": [([1], [2])]}, "the images of batch 0 .* are a list"),
    "other size": ({"batch_size": 8}, "has 4 images, batch_size is 8: give batch_size=4"),
    "too large": ({"loader": batches(4, 5)}, "batch 1 .* has 5 images, .*: drop or fill it"),
    "small first": ({"loader": batches(4, 2, 4)}, "batch 1 .* has 2 images, .*: drop or fill it"),
    "unequal": ({"loader": [(np.ones((4, 3)), np.ones(3))]}, "has 4 images and 3 labels"),
    "none": ({"loader": [(np.ones((0, 3)), np.ones(0))]}, "has 0 images"),
    "one-hot": ({"loader": [(np.ones((4, 3)), np.ones((4, 2)))]}, r"labels of shape \(4, 2\)"),
    "device": ({"device": "gpu:0"}, "device is 'gpu:0': give cpu, cuda or cuda:N"),
    "batch size": ({"batch_size": 0}, "batch_size is 0: give a whole number"),
    "passes": ({"passes": 1.5}, "passes is 1.5: give a whole number"),
    "seconds": ({"phase_seconds": 0}, "phase_seconds is 0"),
    "loss": ({"loss": "mse"}, "loss is 'mse': give a function"),
    "parameters": ({"parameters": [1]}, "a Counting model holds its parameters"),
    "no parameters": ({"model": len}, "give its parameters= as well"),
    "two losses": ({"model": len, "parameters": [1], "loss": len}, "leave loss= out"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_line(case: str) -> None:
    words, message = WRONG[case]
    with pytest.raises(EvaluationError, match=message) as raised:
        measure(**words)
    assert "\n" not in str(raised.value)


def test_an_empty_loader() -> None:
    with pytest.raises(EvaluationError, match="data_loader is empty"):
        evaluate_framework(Model(), [], batch_size=4)


def test_a_loader_without_end() -> None:
    class Repeated(list[Any]):
        def cardinality(self) -> int:
            return -1

    with pytest.raises(EvaluationError, match="never ends"):
        measure(Repeated(batches(4)))


def test_a_loader_that_is_empty_the_second_time() -> None:
    class Once(list[Any]):
        def __iter__(self) -> Any:
            while self:
                yield self.pop()

    model = Model()
    with pytest.raises(EvaluationError, match="empty the second time"):
        measure(Once(batches(4)), model=model)
    assert model.state == 0


@pytest.mark.parametrize(
    ("given", "name"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")]
)
def test_devices(given: str, name: str) -> None:
    assert evaluate._device_name(given) == name


def test_a_framework_that_is_not_there() -> None:
    with pytest.raises(EvaluationError, match="no_such_framework cannot be imported"):
        own_model.import_framework("no_such_framework")


def test_numpy_doubles_become_single() -> None:
    assert own_model.to_numpy(np.ones(2)).dtype == np.float32
    assert own_model.to_numpy(np.ones(2, np.uint8)).dtype == np.uint8


def test_netdyno_exports_it_and_imports_nothing_else() -> None:
    assert netdyno.evaluate_framework is evaluate_framework
    assert netdyno.EvaluationError is EvaluationError
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = netdyno.no_such_name  # type: ignore[attr-defined]
    program = (
        "import sys, netdyno; assert 'numpy' not in sys.modules; netdyno.evaluate_framework;"
        "from netdyno_worker.evaluate import own_models;"
        "print(sorted(own_models()), {'torch', 'tensorflow', 'jax', 'mxnet', 'click', 'rich'}"
        " & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "['jax', 'mxnet', 'pytorch', 'tensorflow'] set()\n", done.stderr


@pytest.mark.parametrize("name", ["jax", "keras", "mxnet", "pytorch", "tensorflow"])
def test_the_page_shows_the_examples(name: str) -> None:
    page = (ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8")
    example = (ROOT / "examples" / f"evaluate_{name}.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert example in blocks
