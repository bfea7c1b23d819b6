"""A person's own model, measured in their own Python: ``netdyno.evaluate_framework``.

What a framework must do for it is ``own_model.OwnModel``.
"""

from __future__ import annotations

import collections.abc
import importlib
import importlib.util
import itertools
import pkgutil
import re
import statistics
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Set,
    Tuple,
    Type,
)

from netdyno_worker import clock, frameworks, loop
from netdyno_worker.memory import Reported
from netdyno_worker.own_memory import internal_memory
from netdyno_worker.own_model import EvaluationError, OwnModel
from netdyno_worker.protocol import Sampling, finite

__all__ = ["EvaluationError", "evaluate_framework"]

# Batches that forward_backward takes turns with: the next one is never the last one.
CACHED_BATCHES = 4


class Pass(NamedTuple):
    """One full traversal of the loader."""

    seconds: float
    batches: int
    images: int


def evaluate_framework(
    model: Any,
    data_loader: Iterable[Any],
    device: Any = "cpu",
    batch_size: int = 32,
    *,
    loss: Optional[Callable[..., Any]] = None,
    parameters: Any = None,
    passes: int = 1,
    phase_seconds: float = 2.0,
) -> Dict[str, Any]:
    """Measure how fast ``model`` trains, and in how much memory; leave it as it was.

    Args:
        model: a ``torch.nn.Module``; a Keras model or ``tf.Module``; a Gluon ``Block``; or, for
            JAX, a function ``loss(parameters, images, labels)`` that returns a scalar. It must be
            on ``device`` already.
        data_loader: anything that can be iterated over again and again and gives pairs
            ``(images, labels)`` of shapes ``(N, ...)``: NumPy arrays or tensors.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        batch_size: N of every batch; only the last may have fewer.
        loss: ``loss(outputs, labels)`` in the model's framework, averaged if it is not a scalar.
            Default: mean softmax cross-entropy of outputs ``(N, classes)``, labels ``(N,)``.
        parameters: for JAX only, and required there: a pytree of arrays.
        passes: full training passes to average over.
        phase_seconds: about how long to repeat ``forward_backward`` for, after warm-up.

    Returns:
        ``forward_backward_time``: seconds of one forward and backward pass of a full batch that is
        on the device already, median over synchronized blocks. ``epoch_time``: seconds of one
        training pass: loading, transfer, forward, backward and SGD update of every batch.
        ``memory_mb``: MB (10^6 bytes) of internal memory of one forward and backward pass of a
        full batch: the peak of what it allocates beyond inputs, parameters, their gradients and
        outputs; None if nothing could tell it. ``memory_source``: what told it, and what it leaves
        out, or why there is none. Beside them ``framework``, ``device``, ``batch_size``,
        ``batches`` and ``images`` of a pass, and ``loss``, that of the last batch, None if it is
        not finite.

    Raises:
        EvaluationError: an argument is wrong. What the model or the loader raises comes through.

    The three figures are those of the MXNet paper: Chen et al. 2015, arXiv:1512.01274.
    """
    framework, kind = _framework_of(model)
    _check_arguments(data_loader, batch_size, passes, phase_seconds)
    _check_loss(kind, loss, parameters)
    name = _device_name(device)
    own = kind(model, name, loss, parameters)
    batches = _Batches(data_loader, batch_size, loss is None and not kind.is_function)
    cached = [own.put(*pair) for pair in batches.first(CACHED_BATCHES)]
    own.snapshot(cached[0])
    try:
        seconds = time_forward_backward(own, cached, phase_seconds)
        done = time_passes(own, batches, cached[0], passes)
        last_loss = own.loss()
        # Last: passes that are watched must not be timed, nor disturb those that are.
        memory = _memory(own, cached[0], name)
    finally:
        own.restore()
    return {
        "forward_backward_time": seconds,
        "memory_mb": None if memory.bytes is None else memory.bytes / 1e6,
        "epoch_time": statistics.mean(each.seconds for each in done),
        "memory_source": _source(memory),
        "framework": framework,
        "device": str(device),
        "batch_size": batch_size,
        "batches": done[-1].batches,
        "images": done[-1].images,
        "loss": finite(last_loss),
    }


def _memory(own: OwnModel, batch: Tuple[Any, Any], device: str) -> Reported:
    try:
        return internal_memory(own, batch, device)
    except Exception as error:  # the times have been measured: they are not lost over this
        own.synchronize()
        return Reported(None, "", "", "{}: {}".format(type(error).__name__, error))


def _source(memory: Reported) -> str:
    """Such as ``static plan, SOURCE: what it leaves out``."""
    told = ", ".join(part for part in (memory.kind, memory.source) if part)
    return ": ".join(part for part in (told, memory.remark) if part)


def time_forward_backward(
    own: OwnModel, batches: List[Tuple[Any, Any]], phase_seconds: float
) -> float:
    """Seconds of one ``forward_backward``: the median over THE loop's samples."""
    # The rest as in netdyno.plan.sampling, so that both measure alike.
    sampling = Sampling(
        min_samples=3,
        max_samples=50,
        phase_seconds=phase_seconds,
        min_block_seconds=0.002,
        max_warmup_iterations=10,
    )
    turns = itertools.cycle(batches)
    blocks = loop.measure(lambda: own.forward_backward(next(turns)), own.synchronize, sampling)
    return statistics.median(
        block.seconds_per_iteration for block in blocks if block.kind == "sample"
    )


def time_passes(
    own: OwnModel, batches: Iterable[Tuple[Any, Any]], warm: Tuple[Any, Any], passes: int
) -> List[Pass]:
    """Consecutive training passes, as in training: each goes on where the last one ended."""
    own.train_step(warm)
    seen = {_shape(warm[0])}
    return [time_pass(own, batches, seen) for _ in range(passes)]


def time_pass(own: OwnModel, batches: Iterable[Tuple[Any, Any]], seen: Set[Any]) -> Pass:
    """Load, transfer and train on every batch, then synchronize once.

    ``seen`` holds the shapes of images that were trained on. A new one, such as that of a smaller
    last batch, may make a framework compile for seconds: it is stepped once with the clock
    stopped, as the first was before the pass.
    """
    own.synchronize()
    count = images_seen = 0
    seconds, start = 0.0, clock.now()
    for images, labels in batches:
        batch = own.put(images, labels)
        shape = _shape(images)
        if shape not in seen:
            own.synchronize()
            seconds += clock.now() - start
            own.train_step(batch)
            own.synchronize()
            seen.add(shape)
            start = clock.now()
        own.train_step(batch)
        count += 1
        images_seen += shape[0]
    own.synchronize()
    seconds += clock.now() - start
    if not count:
        raise EvaluationError("data_loader was empty the second time: give one that starts anew")
    return Pass(seconds, count, images_seen)


class _Batches:
    """The person's loader, each batch checked as it comes."""

    def __init__(self, loader: Iterable[Any], batch_size: int, class_numbers: bool) -> None:
        self.loader = loader
        self.batch_size = batch_size
        self.class_numbers = class_numbers

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        short = None
        for index, batch in enumerate(self.loader):
            if short is not None:
                self._refuse_size(*short)
            images, labels = _pair(batch, index)
            size = self._check(images, labels, index)
            if size > self.batch_size:
                self._refuse_size(index, size)
            if size < self.batch_size:
                short = index, size
            yield images, labels

    def first(self, count: int) -> List[Tuple[Any, Any]]:
        """Up to ``count`` full batches."""
        pairs = list(itertools.islice(self, count))
        if not pairs:
            raise EvaluationError("data_loader is empty: it gave no batch")
        full = [pair for pair in pairs if _shape(pair[0])[0] == self.batch_size]
        if not full:
            self._refuse_size(0, _shape(pairs[0][0])[0])
        return full

    def _check(self, images: Any, labels: Any, index: int) -> int:
        size = _shape(images)[0]
        if not size or _shape(labels)[0] != size:
            raise EvaluationError(
                "batch {} of data_loader has {} images and {} labels: give one or more, as many"
                " of each".format(index, size, _shape(labels)[0])
            )
        if self.class_numbers and len(_shape(labels)) != 1:
            raise EvaluationError(
                "batch {} of data_loader has labels of shape {}: the default loss wants class"
                " numbers, shape (N,); give them so, or give loss=".format(index, _shape(labels))
            )
        return size

    def _refuse_size(self, index: int, size: int) -> None:
        advice = "drop or fill it: only the last batch may have fewer"
        if index == 0:
            advice = "give batch_size={}, or a loader of such batches".format(size)
        raise EvaluationError(
            "batch {} of data_loader has {} images, batch_size is {}: {}".format(
                index, size, self.batch_size, advice
            )
        )


def own_models() -> Dict[str, Type[OwnModel]]:
    """By framework, from every folder that has one; no framework is imported."""
    found = {}
    for entry in pkgutil.iter_modules(frameworks.__path__):
        name = "{}.{}.own_model".format(frameworks.__name__, entry.name)
        if entry.ispkg and importlib.util.find_spec(name):
            found[entry.name] = importlib.import_module(name).OwnModel
    return found


def _framework_of(model: Any) -> Tuple[str, Type[OwnModel]]:
    for name, kind in own_models().items():
        if callable(model) and kind.accepts(model):
            return name, kind
    raise EvaluationError(
        "cannot tell the framework of a {}.{}: give a torch.nn.Module, a Keras model, a tf.Module,"
        " a Gluon Block, or for JAX a function loss(parameters, images, labels)".format(
            type(model).__module__, type(model).__qualname__
        )
    )


def _check_arguments(loader: Any, batch_size: Any, passes: Any, phase_seconds: Any) -> None:
    for name, value in (("batch_size", batch_size), ("passes", passes)):
        if not isinstance(value, int) or value < 1:
            raise EvaluationError("{} is {!r}: give a whole number, 1 or more".format(name, value))
    if not phase_seconds > 0:
        raise EvaluationError("phase_seconds is {!r}: give seconds, above 0".format(phase_seconds))
    if isinstance(loader, collections.abc.Iterator):
        raise EvaluationError(
            "data_loader is a {}, which can be iterated over once only, and netdyno goes over the"
            " data more than once: give a list, or an object whose __iter__ starts anew".format(
                type(loader).__name__
            )
        )
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise EvaluationError(
            "data_loader is a {}, which cannot be iterated over: give pairs (images,"
            " labels)".format(type(loader).__name__)
        )
    # tf.data.Dataset.repeat() has no end, and then neither has a pass: TensorFlow calls this -1.
    cardinality = getattr(loader, "cardinality", None)
    if callable(cardinality) and int(cardinality()) == -1:
        raise EvaluationError("data_loader never ends: give it without repeat()")


def _check_loss(kind: Type[OwnModel], loss: Any, parameters: Any) -> None:
    if kind.is_function and parameters is None:
        raise EvaluationError(
            "a function is taken for a {} loss, loss(parameters, images, labels): give its"
            " parameters= as well".format(kind.title)
        )
    if kind.is_function and loss is not None:
        raise EvaluationError("for {} the model is the loss: leave loss= out".format(kind.title))
    if not kind.is_function and parameters is not None:
        raise EvaluationError(
            "a {} model holds its parameters: leave parameters= out".format(kind.title)
        )
    if loss is not None and not callable(loss):
        raise EvaluationError("loss is {!r}: give a function loss(outputs, labels)".format(loss))


def _device_name(device: Any) -> str:
    """``cpu`` or ``cuda:N``."""
    match = re.match(r"(?:(cpu)|cuda(?::(\d+))?)$", str(device))
    if not match:
        raise EvaluationError("device is {!r}: give cpu, cuda or cuda:N".format(device))
    return "cpu" if match.group(1) else "cuda:{}".format(int(match.group(2) or 0))


def _pair(batch: Any, index: int) -> Tuple[Any, Any]:
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        what = type(batch).__name__
        if isinstance(batch, (tuple, list)):
            what += " of {}".format(len(batch))
        raise EvaluationError(
            "batch {} of data_loader is a {}: give pairs (images, labels)".format(index, what)
        )
    for name, value in zip(("images", "labels"), batch):
        if not getattr(value, "shape", ()):
            raise EvaluationError(
                "the {} of batch {} of data_loader are a {}, without a first dimension: give an"
                " array or tensor".format(name, index, type(value).__name__)
            )
    return batch[0], batch[1]


def _shape(value: Any) -> Tuple[int, ...]:
    return tuple(value.shape)
