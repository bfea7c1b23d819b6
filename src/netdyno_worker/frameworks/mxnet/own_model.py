"""A person's Gluon block, as it is given: hybridized or not, with ``mx.nd`` or ``mx.np``."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from netdyno_worker.adapter import UnsupportedError
from netdyno_worker.frameworks.mxnet.adapter import find_device
from netdyno_worker.own_model import EvaluationError, import_framework, to_numpy
from netdyno_worker.own_model import OwnModel as Base
from netdyno_worker.protocol import HYPERPARAMETERS


class OwnModel(Base):
    title = "MXNet"
    roots = frozenset({"mxnet"})

    def __init__(
        self, model: Any, device: str, loss: Optional[Callable[..., Any]], parameters: Any
    ) -> None:
        mx = self.mx = import_framework("mxnet")
        if not isinstance(model, mx.gluon.Block):
            raise EvaluationError(
                "the model is a {}: give a mxnet.gluon.Block".format(type(model).__name__)
            )
        self.model = model
        try:
            self.device = find_device(mx, device)
        except UnsupportedError as error:
            raise EvaluationError("{}: give another device".format(error)) from None
        self.array = mx.np.array if mx.util.is_np_array() else mx.nd.array
        self._loss_of = loss or self._cross_entropy
        self._entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        self._check_parameters()

    def _check_parameters(self) -> None:
        for name, parameter in self.model.collect_params().items():
            try:
                devices = parameter.list_ctx()
            except RuntimeError:
                raise EvaluationError(
                    "parameter {} has not been initialized: call initialize(ctx={!r}) on the block"
                    " first".format(name, self.device)
                ) from None
            if devices != [self.device]:
                raise EvaluationError(
                    "the model is on {}, device is {}: call collect_params().reset_ctx() on the"
                    " block first".format(devices, self.device)
                )

    def put(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        return self._put(images), self._put(labels)

    def _put(self, value: Any) -> Any:
        if isinstance(value, self.mx.nd.NDArray):
            return value.as_in_context(self.device)
        value = to_numpy(value)
        return self.array(value, ctx=self.device, dtype=value.dtype)

    def snapshot(self, batch: Tuple[Any, Any]) -> None:
        with self.mx.autograd.pause(train_mode=False):
            self.model(batch[0])  # infers the shapes that were left open
        parameters = list(self.model.collect_params().values())
        self.saved = [(parameter, parameter.data().copy()) for parameter in parameters]
        self.trained = [parameter for parameter in parameters if parameter.grad_req != "null"]
        if not self.trained:
            raise EvaluationError("every parameter has grad_req 'null': nothing to train")
        self.momenta = [self.mx.nd.zeros_like(_plain(w.data())) for w in self.trained]

    def forward_backward(self, batch: Tuple[Any, Any]) -> None:
        images, labels = batch
        with self.mx.autograd.record():
            loss = self._loss_of(self.model(images), labels).mean()
        loss.backward()
        self._loss = loss

    def train_step(self, batch: Tuple[Any, Any]) -> None:
        self.forward_backward(batch)
        # The operator and not a Trainer, which would leave its mark on the parameters.
        rate, momentum, decay = HYPERPARAMETERS
        for parameter, kept in zip(self.trained, self.momenta):
            weight, gradient = _plain(parameter.data()), _plain(parameter.grad())
            self.mx.nd.sgd_mom_update(
                weight, gradient, kept, out=weight, lr=rate, momentum=momentum, wd=decay
            )

    def whole_pass(self, batch: Tuple[Any, Any]) -> None:
        # What hybridize(static_alloc=True) has planned is kept from call to call.
        self._drop_plans()
        super().whole_pass(batch)
        self._drop_plans()

    def _drop_plans(self) -> None:
        self._loss = None  # it may lie in a plan
        for block in (self.model, self._loss_of):
            if isinstance(block, self.mx.gluon.Block):
                block.apply(_drop_plan)
        self.mx.nd.waitall()
        # The engine lets go of what an operation held after it has called it done: wait for one
        # that comes behind.
        (self.mx.nd.zeros(1) + 1).wait_to_read()
        self.mx.nd.waitall()

    def synchronize(self) -> None:
        self.mx.nd.waitall()

    def loss(self) -> float:
        return float(self._loss.asnumpy())

    def restore(self) -> None:
        for parameter, value in self.saved:
            parameter.set_data(value)
        for parameter in self.trained:
            # Not zero_grad(), which fails on mx.np arrays in MXNet 1.9.1.
            _plain(parameter.grad())[:] = 0
        self.mx.nd.waitall()

    def _cross_entropy(self, outputs: Any, labels: Any) -> Any:
        if not isinstance(outputs, self.mx.nd.NDArray):
            raise EvaluationError(
                "the model's output is a {}, not an array: give loss=".format(
                    type(outputs).__name__
                )
            )
        return self._entropy(outputs, labels)


def _drop_plan(block: Any) -> None:
    """The next call makes it anew, as after ``hybridize``."""
    if hasattr(block, "_clear_cached_op"):
        block._clear_cached_op()


def _plain(array: Any) -> Any:
    """``mx.nd`` view of an ``mx.np`` array: the update operator knows only that kind."""
    return array.as_nd_ndarray()
