"""What each kind of layer keeps, and what its backward pass reads: the planner's rules.

A rule says three things of a layer. What its forward pass writes besides its output
(``saved``). What its backward pass reads (``reads``): ``output gradient``, ``input`` (all of
them), ``output``, or something saved. And which buffers may serve twice: the output may take over
the buffer of an input (``forward``), an input's gradient that of one thing read
(``backward_takes``), provided that nobody needs the old contents any more. Parameters and their
gradients are not internal and appear nowhere.

``PLAIN`` is what MXNet's own kernels do, without cuDNN or oneDNN. The other two sets are builds
whose plans are known: ``MXNET_2015``, which drew the figure of arXiv:1512.01274, and
``MXNET_1_9``, the last CPU wheels. Files are named as in apache/mxnet at tag 1.9.1
(``src/operator/``), and for ``MXNET_2015`` at c56a673 of 2015-12-02.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from netdyno.errors import NetdynoError
from netdyno.networks.graph import Layer, Pool

__all__ = [
    "GRADIENT",
    "INPUT_DATA",
    "MXNET_1_9",
    "MXNET_2015",
    "OUTPUT_DATA",
    "PLAIN",
    "Rule",
    "RuleSet",
    "Saved",
]

GRADIENT = "output gradient"
INPUT_DATA = "input"
OUTPUT_DATA = "output"

Reuse = Literal["no", "in place", "view"]


@dataclass(frozen=True)
class Saved:
    """What a forward pass writes besides its output.

    Args:
        name: how the rule's ``reads`` calls it.
        size_of: the array that it has as many elements as; ``channels``: one for each channel,
            whatever the batch.
        itemsize_bytes: of one element; None: that of the network.
        gradient: whether the backward pass is handed a gradient of it, all zeros.
    """

    name: str
    size_of: Literal["input", "output", "channels"] = "output"
    itemsize_bytes: int | None = None
    gradient: bool = False


@dataclass(frozen=True)
class Rule:
    """One kind of layer.

    Args:
        reads: what the backward pass reads.
        source: where it was read.
        saved: what the forward pass writes besides its output.
        forward: whether the output may take over an input's buffer. A ``view`` is the same
            memory, even while the input is still needed.
        backward_takes: what the input's gradient may take the place of; None: nothing.
        backward_view: the input's gradient is that memory itself, even while it is still needed.
    """

    reads: tuple[str, ...]
    source: str
    saved: tuple[Saved, ...] = ()
    forward: Reuse = "no"
    backward_takes: str | None = None
    backward_view: bool = False


@dataclass(frozen=True)
class RuleSet:
    """The rules of one program.

    Args:
        name: for people.
        rules: by kind of layer; pooling is ``Pool max`` or ``Pool average``.
        unused_gradients: gradients that nobody asked for, those of the images first of all, get
            a buffer all the same.
        largest_first: an operation with several outputs requests their buffers by size, else in
            their order. What is left in the pool for others depends on it.
    """

    name: str
    rules: Mapping[str, Rule] = field(repr=False)
    unused_gradients: bool = False
    largest_first: bool = True

    def rule(self, layer: Layer) -> Rule:
        """The rule of a layer.

        Raises:
            NetdynoError: there is none for its kind.
        """
        kind = f"Pool {layer.reduction}" if isinstance(layer, Pool) else layer.kind
        if kind not in self.rules:
            raise NetdynoError(
                f"layer '{layer.name}': the memory rules '{self.name}' have none for {kind}; "
                "add it to netdyno/memory/rules.py"
            )
        return self.rules[kind]


PLAIN = RuleSet(
    "plain",
    {
        "Conv": Rule((GRADIENT, INPUT_DATA), "nn/convolution.cc, ConvolutionGrad"),
        # The gradient of the weight is done with the input before that of the input is written.
        "Dense": Rule(
            (GRADIENT, INPUT_DATA),
            "nn/fully_connected.cc, FullyConnectedGrad and _backward_FullyConnected",
            backward_takes=INPUT_DATA,
        ),
        "ReLU": Rule(
            (GRADIENT, OUTPUT_DATA),
            "nn/activation.cc, ActivationGrad: 'case kReLU' needs no input",
            forward="in place",
            backward_takes=GRADIENT,
        ),
        "Pool max": Rule(
            (GRADIENT, INPUT_DATA, OUTPUT_DATA), "nn/pooling.cc, ElemwiseGradUseInOut"
        ),
        "Pool average": Rule((GRADIENT,), "the mean's derivative is a constant"),
        "LRN": Rule(
            (GRADIENT, INPUT_DATA, "norm"),
            "nn/lrn.cc, LRNGrad: kData and kTmpNorm",
            saved=(Saved("norm"),),
        ),
        "BatchNorm": Rule(
            (GRADIENT, "mean", "variance", INPUT_DATA),
            "nn/batch_norm.cc, BatchNormGrad",
            saved=(Saved("mean", "channels"), Saved("variance", "channels")),
        ),
        "Dropout": Rule(
            (GRADIENT, "mask"),
            "nn/dropout.cc, DropoutGrad: kMask, an array of the input's type",
            saved=(Saved("mask"),),
            forward="in place",
            backward_takes=GRADIENT,
        ),
        "Concat": Rule((GRADIENT,), "nn/concat.cc, ConcatGrad without oneDNN"),
        "Add": Rule(
            (GRADIENT,),
            "the gradient of each term of a sum is that of the sum",
            forward="in place",
            backward_takes=GRADIENT,
            backward_view=True,
        ),
        "Flatten": Rule(
            (GRADIENT,),
            "tensor/matrix_op.cc, FInplaceIdentity; a change of shape in both directions",
            forward="view",
            backward_takes=GRADIENT,
            backward_view=True,
        ),
        "SoftmaxCrossEntropy": Rule(
            ("probabilities",),
            "softmax_output.cc, SoftmaxOutputGrad: its output and the label",
            saved=(Saved("probabilities", "input"),),
            backward_takes="probabilities",
        ),
    },
)

# cuDNN changes what the operators declare (MXNET_USE_CUDNN in each file).
MXNET_2015 = RuleSet(
    "mxnet-2015",
    {
        **PLAIN.rules,
        "ReLU": Rule(
            (GRADIENT, OUTPUT_DATA, INPUT_DATA),
            "activation-inl.h: cudnnActivationBackward takes both",
            forward="in place",
            backward_takes=GRADIENT,
        ),
        "Pool average": Rule((GRADIENT, INPUT_DATA, OUTPUT_DATA), "pooling-inl.h"),
        "LRN": Rule((GRADIENT, INPUT_DATA, OUTPUT_DATA), "lrn-inl.h: cuDNN saves no norm"),
        "BatchNorm": Rule(
            (GRADIENT, OUTPUT_DATA, "normalized", "mean", "variance", INPUT_DATA),
            "batch_norm-inl.h, 'output_no_affine'",
            saved=(
                Saved("normalized"),
                Saved("mean", "channels"),
                Saved("variance", "channels"),
            ),
            backward_takes=GRADIENT,
        ),
        "Add": Rule(
            (GRADIENT,),
            "elementwise_sum-inl.h",
            forward="in place",
            backward_takes=GRADIENT,
        ),
        "Flatten": Rule(
            (GRADIENT,),
            "reshape-inl.h: in place, no view",
            forward="in place",
            backward_takes=GRADIENT,
        ),
    },
    unused_gradients=True,
    largest_first=False,
)

# The wheels for CPUs are built with oneDNN (MXNET_USE_MKLDNN in each file).
MXNET_1_9 = RuleSet(
    "mxnet-1.9",
    {
        **PLAIN.rules,
        "Pool max": Rule(
            (GRADIENT, "workspace gradient", INPUT_DATA, OUTPUT_DATA, "workspace"),
            "nn/pooling.cc, GetNumOutputs: oneDNN's workspace is a second, hidden output, and "
            "ElemwiseGradUseInOut reads its gradient, which is zeros, as well",
            saved=(Saved("workspace", itemsize_bytes=4, gradient=True),),
            backward_takes="workspace gradient",
        ),
        "Pool average": Rule(
            (GRADIENT, INPUT_DATA, OUTPUT_DATA), "nn/pooling.cc, ElemwiseGradUseInOut"
        ),
        "Concat": Rule((GRADIENT, INPUT_DATA), "nn/concat.cc, ConcatGrad with oneDNN"),
        "Add": Rule(
            (GRADIENT,),
            "tensor/elemwise_binary_op_basic.cc, _backward_add: in place, no view",
            forward="in place",
            backward_takes=GRADIENT,
        ),
        "Flatten": Rule(
            (GRADIENT,),
            "tensor/matrix_op.cc, FInplaceIdentity; _backward_copy: in place, no view",
            forward="view",
            backward_takes=GRADIENT,
        ),
    },
    unused_gradients=True,
)
