"""A person's Keras model or ``tf.Module``, inside ``tf.function``."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, List, Optional, Tuple

from netdyno_worker import allocations
from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.tensorflow import allocator_trace
from netdyno_worker.frameworks.tensorflow.adapter import find_device
from netdyno_worker.memory import Reported
from netdyno_worker.own_model import (
    EvaluationError,
    import_framework,
    module_roots,
    to_numpy,
)
from netdyno_worker.own_model import OwnModel as Base
from netdyno_worker.protocol import HYPERPARAMETERS

# Its executor runs what is ready in any order, and some orders need more memory.
TRACED_PASSES = 3


class OwnModel(Base):
    title = "TensorFlow"
    roots = frozenset({"tensorflow", "keras", "tf_keras"})

    def __init__(
        self, model: Any, device: str, loss: Optional[Callable[..., Any]], parameters: Any
    ) -> None:
        _refuse_other_backends(model)
        tf = self.tf = import_framework("tensorflow")
        if not hasattr(model, "trainable_variables"):
            raise EvaluationError(
                "the model is a {} without trainable_variables: give a Keras model or a"
                " tf.Module".format(type(model).__name__)
            )
        self.model = model
        self.has_mode = _has_mode(model)
        try:
            self.device = find_device(tf, device)
        except UnsupportedError as error:
            raise EvaluationError("{}: give another device".format(error)) from None
        self._loss_of = loss or self._cross_entropy

    def put(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        with self.tf.device(self.device):
            return self._put(images), self._put(labels)

    def _put(self, value: Any) -> Any:
        if not self.tf.is_tensor(value):
            value = to_numpy(value)
        # identity: a constant may lie in host memory even inside tf.device.
        return self.tf.identity(self.tf.convert_to_tensor(value))

    def snapshot(self, batch: Tuple[Any, Any]) -> None:
        tf = self.tf
        with tf.device(self.device):
            self._call(batch[0], training=False)  # makes the variables
            self.trained = _variables(tf, self.model.trainable_variables)
            self._check_variables()
            every = _variables(tf, self.model.variables)
            self.saved = [(variable, tf.identity(variable)) for variable in every]
            self.velocities = [tf.Variable(tf.zeros_like(w), trainable=False) for w in self.trained]
        # The person's Python control flow, if any, needs AutoGraph; ours does not.
        call = tf.function(lambda images: self._call(images, training=True))
        self._compile(call)

    def _call(self, images: Any, training: bool) -> Any:
        return self.model(images, training=training) if self.has_mode else self.model(images)

    def _check_variables(self) -> None:
        if not self.trained:
            raise EvaluationError("the model has no trainable variable: nothing to train")
        for variable in self.trained:
            if not variable.device.upper().endswith(self.device[1:]):
                raise EvaluationError(
                    "the model is on {}, device is {}: make it inside tf.device('{}')".format(
                        variable.device, self.device, self.device
                    )
                )

    def _compile(self, call: Callable[[Any], Any]) -> None:
        tf = self.tf
        rate, momentum, decay = HYPERPARAMETERS

        def gradients(images: Any, labels: Any) -> Tuple[Any, List[Any]]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(self.trained)
                loss = tf.reduce_mean(self._loss_of(call(images), labels))
            # A variable that the loss does not depend on has None.
            return loss, tape.gradient(loss, self.trained)

        def step(images: Any, labels: Any) -> Any:
            loss, found = gradients(images, labels)
            for variable, velocity, gradient in zip(self.trained, self.velocities, found):
                if gradient is None:
                    continue
                # accum = momentum * accum + grad; var -= lr * accum
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle,
                    accum=velocity.handle,
                    lr=tf.constant(rate, variable.dtype),
                    grad=tf.convert_to_tensor(gradient) + decay * variable,
                    momentum=tf.constant(momentum, variable.dtype),
                )
            return loss

        # All gradients are returned: TensorFlow would not compute what nobody asks for.
        self._gradients_of = tf.function(gradients, autograph=False)
        self._step = tf.function(step, autograph=False)

    def forward_backward(self, batch: Tuple[Any, Any]) -> None:
        with self.tf.device(self.device):
            self._loss, self._gradients = self._gradients_of(*batch)

    def train_step(self, batch: Tuple[Any, Any]) -> None:
        with self.tf.device(self.device):
            self._loss = self._step(*batch)
        self._gradients = None  # else those of the last forward_backward stay in memory

    def synchronize(self) -> None:
        self.tf.test.experimental.sync_devices()

    def loss(self) -> float:
        return float(self._loss)

    def reported(self, batch: Tuple[Any, Any]) -> Optional[Reported]:
        # oneDNN's allocator keeps what it once had: from outside, a pass seems to take nothing.
        on_cpu = "CPU" in self.device.upper()
        allocator = "mklcpu" if on_cpu else "GPU_{}_bfc".format(self.device.rpartition(":")[2])
        peaks = []
        for _ in range(TRACED_PASSES):
            records = allocator_trace.records(self.tf, allocator, lambda: self.whole_pass(batch))
            if not records:
                return None
            peaks.append(allocations.account(records).peak_bytes)
        remark = "the largest of {} passes, whose order varies".format(TRACED_PASSES)
        if on_cpu:
            remark += "; blocks below 256 KiB are not in it"
        return Reported(max(peaks), "allocator peak", "tf.profiler", remark)

    def restore(self) -> None:
        # Gradients belong to the calls that made them: the model holds none.
        for variable, value in self.saved:
            variable.assign(value)

    def _cross_entropy(self, outputs: Any, labels: Any) -> Any:
        if not self.tf.is_tensor(outputs):
            raise EvaluationError(
                "the model's output is a {}, not a tensor: give loss=".format(
                    type(outputs).__name__
                )
            )
        return self.tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)


def _refuse_other_backends(model: Any) -> None:
    """Keras 3 runs over other frameworks too, where there is nothing for TensorFlow to do."""
    keras = sys.modules.get("keras")
    if keras is not None and "keras" in module_roots(model):
        backend = keras.backend.backend()
        if backend != "tensorflow":
            raise EvaluationError(
                "Keras runs over {} here, and netdyno measures it over TensorFlow only: set"
                " KERAS_BACKEND=tensorflow before Keras is imported".format(backend)
            )


def _has_mode(model: Any) -> bool:
    """Whether it is called with ``training=``: Keras always is, a ``tf.Module`` may be."""
    if not module_roots(model).isdisjoint({"keras", "tf_keras"}):
        return True
    try:
        return "training" in inspect.signature(model).parameters
    except (TypeError, ValueError):
        return False


def _variables(tf: Any, values: Any) -> List[Any]:
    """Keras 3 wraps each ``tf.Variable`` in a variable of its own."""
    return [value if isinstance(value, tf.Variable) else value.value for value in values]
