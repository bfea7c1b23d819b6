"""AlexNet (one weird trick) in Gluon, as the model zoo writes it, and as a bound symbol."""

import time
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mxnet as mx
    from mxnet import autograd, gluon
    from mxnet.gluon import nn


class AlexNet(gluon.HybridBlock):
    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                self.features.add(
                    nn.Conv2D(64, kernel_size=11, strides=4, padding=2, activation="relu"),
                    nn.MaxPool2D(pool_size=3, strides=2),
                    nn.Conv2D(192, kernel_size=5, padding=2, activation="relu"),
                    nn.MaxPool2D(pool_size=3, strides=2),
                    nn.Conv2D(384, kernel_size=3, padding=1, activation="relu"),
                    nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                    nn.Conv2D(256, kernel_size=3, padding=1, activation="relu"),
                    nn.MaxPool2D(pool_size=3, strides=2),
                    nn.Flatten(),
                    nn.Dense(4096, activation="relu"),
                    nn.Dense(4096, activation="relu"),
                )
            self.output = nn.Dense(classes)

    def hybrid_forward(self, F, x):  # noqa: N803 - Gluon's own spelling
        return self.output(self.features(x))


def make(job, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    images, labels = mx.nd.array(images), mx.nd.array(labels)
    return (_symbol if job.mode == "symbol" else _hybrid)(images, labels, parameters)


def _hybrid(images, labels, parameters):
    net = AlexNet()
    net.initialize()
    net(images)  # which gives the parameters their shapes
    for parameter, value in zip(net.collect_params().values(), parameters):
        parameter.set_data(mx.nd.array(value))
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize(static_alloc=True, static_shape=True)

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            with autograd.record():
                loss = loss_of(net(images), labels)
            loss.backward()
        mx.nd.waitall()
        return time.perf_counter() - start, float(loss.mean().asscalar())

    return run


def _symbol(images, labels, parameters):
    x = mx.sym.Variable("data")
    for filters, kernel, stride, pad, pooled in (
        (64, 11, 4, 2, True),
        (192, 5, 1, 2, True),
        (384, 3, 1, 1, False),
        (256, 3, 1, 1, False),
        (256, 3, 1, 1, True),
    ):
        x = mx.sym.Convolution(
            x,
            num_filter=filters,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=(pad, pad),
        )
        x = mx.sym.Activation(x, act_type="relu")
        if pooled:
            x = mx.sym.Pooling(x, pool_type="max", kernel=(3, 3), stride=(2, 2))
    x = mx.sym.Flatten(x)
    for _ in range(2):
        x = mx.sym.Activation(mx.sym.FullyConnected(x, num_hidden=4096), act_type="relu")
    x = mx.sym.FullyConnected(x, num_hidden=1000)
    net = mx.sym.SoftmaxOutput(x, name="softmax", normalization="batch")
    needed = dict.fromkeys(net.list_arguments(), "write")
    needed.update(data="null", softmax_label="null")
    executor = net.simple_bind(
        mx.cpu(), grad_req=needed, data=images.shape, softmax_label=labels.shape
    )
    learned = [name for name in net.list_arguments() if needed[name] == "write"]
    for name, value in zip(learned, parameters):
        executor.arg_dict[name][:] = value
    executor.arg_dict["data"][:] = images
    executor.arg_dict["softmax_label"][:] = labels

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            executor.forward(is_train=True)
            executor.backward()
        mx.nd.waitall()
        seconds = time.perf_counter() - start
        # SoftmaxOutput gives probabilities; the loss is only its gradient's.
        return seconds, float(-executor.outputs[0].pick(labels).log().mean().asscalar())

    return run
