"""Caffe's layers, one by one, as layers of the neutral network.

Every field that says what is computed is read; one that is not known is an error, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from netdyno.errors import NetdynoError
from netdyno.networks.graph import (
    LRN,
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    Pair,
    Pool,
    ReLU,
)
from netdyno.networks.importers.assembly import Assembly
from netdyno.networks.importers.text_format import LineError, Message

__all__ = ["CAFFE_TYPES", "CaffeLayer", "Translator"]

# The types of ``layers { type: CONVOLUTION }`` by those of ``layer { type: "Convolution" }``.
CAFFE_TYPES = {
    "ACCURACY": "Accuracy",
    "CONCAT": "Concat",
    "CONVOLUTION": "Convolution",
    "DATA": "Data",
    "DROPOUT": "Dropout",
    "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise",
    "FLATTEN": "Flatten",
    "HDF5_DATA": "HDF5Data",
    "IMAGE_DATA": "ImageData",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MEMORY_DATA": "MemoryData",
    "POOLING": "Pooling",
    "RELU": "ReLU",
    "SILENCE": "Silence",
    "SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "SPLIT": "Split",
    "WINDOW_DATA": "WindowData",
}

# Fields of every layer. Of these, initial values and training settings are netdyno's own.
COMMON = {"name", "type", "bottom", "top", "include", "exclude", "phase", "blobs"}
TRAINING = {"param", "blobs_lr", "weight_decay", "propagate_down", "blob_share_mode"}
FILLERS = {"weight_filler", "bias_filler", "filler", "engine"}


@dataclass(frozen=True)
class CaffeLayer:
    """``type`` is that of the newer format; ``bottoms`` are read, ``tops`` written."""

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Message

    @property
    def title(self) -> str:
        return f"layer '{self.name}' ({self.type})"

    def parameters(self, field: str, *known: str) -> Message:
        """The block of settings ``field``, in which nothing but ``known`` may stand."""
        for name in self.message.fields:
            if name not in COMMON | TRAINING | {field, "loss_weight"}:
                raise LineError(self.message.line_of(name), f"{name} is not supported here")
        found = self.message.message(field)
        for name in found.fields:
            if name not in FILLERS and name not in known:
                raise LineError(found.line_of(name), f"{field}.{name} is not supported")
        return found


class Translator:
    """Adds Caffe's layers to an assembly, in the order of the file."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self._has_loss = False
        self._silenced: set[str] = set()
        self._shared: dict[str, str] = {}
        # Caffe's batch norm has no scale and shift: a Scale must follow, and has not come yet.
        self._unscaled: dict[str, CaffeLayer] = {}

    def translate(self, layer: CaffeLayer) -> None:
        """Raises NetdynoError, without the layer's name, for what is not supported."""
        translate = _TRANSLATE.get(layer.type)
        if translate is None:
            raise NetdynoError(f"not supported; netdyno reads {', '.join(sorted(_TRANSLATE))}")
        self._check_training(layer)
        if layer.type != "SoftmaxWithLoss" and any(layer.message.numbers("loss_weight")):
            raise LineError(
                layer.message.line_of("loss_weight"), "only SoftmaxWithLoss can be a loss"
            )
        translate(self, layer)

    def finish(self) -> None:
        """Check what is only known at the end, and put a loss on a network without one."""
        for layer in self._unscaled.values():
            raise LineError(layer.message.line, f"{layer.title}: {_UNSCALED}")
        if not self._has_loss:
            ends = [name for name in self._assembly.ends() if name not in self._silenced]
            self._assembly.end(ends)

    def _check_training(self, layer: CaffeLayer) -> None:
        """Layers that share parameters by name, or stop gradients, are another network."""
        if layer.message.texts("propagate_down")[:1] in (["false"], ["0"]):
            raise LineError(
                layer.message.line_of("propagate_down"), "propagate_down: false is not supported"
            )
        names = []
        for value in layer.message.fields.get("param", []):
            if not isinstance(value, Message):
                names.append(value.text)  # the older format
            else:
                names.append(value.text("name", ""))
                if value.number("lr_mult", 1) == 0:
                    self._assembly.note(
                        f"'{layer.name}' has a learning rate of 0 in the file: netdyno trains it"
                    )
        for name in filter(None, names):
            if self._shared.setdefault(name, layer.name) != layer.name:
                raise LineError(
                    layer.message.line_of("param"),
                    f"shares its parameter '{name}' with '{self._shared[name]}': not supported",
                )

    def _source(self, layer: CaffeLayer) -> str:
        """The layer that the single bottom stands for."""
        if len(layer.bottoms) != 1:
            raise NetdynoError(f"needs one bottom, has {len(layer.bottoms)}")
        return self._read(layer.bottoms[0])

    def _sources(self, layer: CaffeLayer) -> tuple[str, ...]:
        if not layer.bottoms:
            raise NetdynoError("has no bottom")
        return tuple(map(self._read, layer.bottoms))

    def _read(self, value: str) -> str:
        found = self._assembly.layer(value)
        if found in self._unscaled:
            unscaled = self._unscaled[found]
            raise LineError(unscaled.message.line, f"BatchNorm '{unscaled.name}' {_UNSCALED}")
        return found

    def convolution(self, layer: CaffeLayer) -> None:
        field = "convolution_param"
        known = ("num_output", "bias_term", "group", "axis", "dilation", "force_nd_im2col")
        settings = layer.parameters(field, *known, *_geometry_fields())
        if any(value != 1 for value in settings.integers("dilation")):
            raise LineError(settings.line_of("dilation"), "dilation is not supported")
        _only(settings, "axis", 1)
        conv = Conv(
            layer.name,
            (self._source(layer),),
            _required(settings, "num_output"),
            _kernel(settings),
            _pair(settings, "stride", 1),
            _pair(settings, "pad", 0),
            settings.integer("group", 1),
            settings.flag("bias_term", True),
        )
        self._assembly.add(conv, *layer.tops)

    def pooling(self, layer: CaffeLayer) -> None:
        known = ("pool", "global_pooling", "round_mode", *_geometry_fields())
        settings = layer.parameters("pooling_param", *known)
        source = self._source(layer)
        word = settings.text("pool", "MAX")
        reduction = {"MAX": "max", "0": "max", "AVE": "average", "1": "average"}.get(word)
        if reduction is None:
            raise LineError(settings.line_of("pool"), f"pool: {word} is not supported")
        rounding = settings.text("round_mode", "CEIL")
        if rounding not in ("CEIL", "FLOOR", "0", "1"):
            raise LineError(settings.line_of("round_mode"), f"no round_mode {rounding}")
        if settings.flag("global_pooling", False):
            self._assembly.global_pool(source, layer.name, reduction, *layer.tops)
            return
        pool = Pool(
            layer.name,
            (source,),
            reduction,  # type: ignore[arg-type]  # one of the two above
            _kernel(settings),
            _pair(settings, "stride", 1),
            _pair(settings, "pad", 0),
            ceil_mode=rounding in ("CEIL", "0"),
        )
        self._assembly.add(pool, *layer.tops)

    def relu(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("relu_param", "negative_slope")
        if settings.number("negative_slope", 0) != 0:
            raise LineError(settings.line_of("negative_slope"), "negative_slope is not supported")
        self._assembly.add(ReLU(layer.name, (self._source(layer),)), *layer.tops)

    def lrn(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("lrn_param", "local_size", "alpha", "beta", "k", "norm_region")
        region = settings.text("norm_region", "ACROSS_CHANNELS")
        if region not in ("ACROSS_CHANNELS", "0"):
            raise LineError(settings.line_of("norm_region"), f"{region} is not supported")
        # As here, alpha is divided by the size.
        lrn = LRN(
            layer.name,
            (self._source(layer),),
            settings.integer("local_size", 5),
            settings.number("alpha", 1.0),
            settings.number("beta", 0.75),
            settings.number("k", 1.0),
        )
        self._assembly.add(lrn, *layer.tops)

    def batch_norm(self, layer: CaffeLayer) -> None:
        known = ("eps", "moving_average_fraction", "use_global_stats")
        settings = layer.parameters("batch_norm_param", *known)
        if settings.flag("use_global_stats", False):
            self._assembly.note(
                "batch norms use stored statistics in the file; in netdyno they use the batch's"
            )
        norm = BatchNorm(
            layer.name,
            (self._source(layer),),
            settings.number("eps", 1e-5),
            # 1 - 0.999 is not quite 0.001 in binary.
            round(1 - settings.number("moving_average_fraction", 0.999), 12),
        )
        self._unscaled[self._assembly.add(norm, *layer.tops)] = layer

    def scale(self, layer: CaffeLayer) -> None:
        known = ("bias_term", "axis", "num_axes")
        settings = layer.parameters("scale_param", *known)
        _only(settings, "axis", 1)
        _only(settings, "num_axes", 1)
        if len(layer.bottoms) != 1:
            raise NetdynoError("a Scale with two bottoms is not supported")
        norm = self._assembly.layer(layer.bottoms[0])
        if self._unscaled.pop(norm, None) is None:
            raise NetdynoError("a Scale is only supported right after a BatchNorm")
        if not settings.flag("bias_term", False):
            raise LineError(
                settings.line_of("bias_term"),
                "needs bias_term: true, since a batch norm of netdyno has a shift, too",
            )
        for top in layer.tops:
            self._assembly.define(top, norm)

    def inner_product(self, layer: CaffeLayer) -> None:
        known = ("num_output", "bias_term", "axis", "transpose")
        settings = layer.parameters("inner_product_param", *known)
        _only(settings, "axis", 1)
        source = self._assembly.flat(self._source(layer))
        units, bias = _required(settings, "num_output"), settings.flag("bias_term", True)
        self._assembly.add(Dense(layer.name, (source,), units, bias), *layer.tops)

    def concat(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("concat_param", "axis", "concat_dim")
        _only(settings, "axis", 1)
        _only(settings, "concat_dim", 1)
        self._assembly.add(Concat(layer.name, self._sources(layer)), *layer.tops)

    def eltwise(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("eltwise_param", "operation", "coeff", "stable_prod_grad")
        operation = settings.text("operation", "SUM")
        if operation not in ("SUM", "1"):
            raise LineError(settings.line_of("operation"), f"{operation} is not supported")
        if any(value != 1 for value in settings.numbers("coeff")):
            raise LineError(settings.line_of("coeff"), "a coeff other than 1 is not supported")
        self._assembly.add(Add(layer.name, self._sources(layer)), *layer.tops)

    def dropout(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("dropout_param", "dropout_ratio")
        rate = settings.number("dropout_ratio", 0.5)
        self._assembly.add(Dropout(layer.name, (self._source(layer),), rate), *layer.tops)

    def flatten(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("flatten_param", "axis", "end_axis")
        _only(settings, "axis", 1)
        _only(settings, "end_axis", -1)
        source = self._source(layer)
        if len(self._assembly.shape(source)) == 1:
            for top in layer.tops:
                self._assembly.define(top, source)
        else:
            self._assembly.add(Flatten(layer.name, (source,)), *layer.tops)

    def softmax(self, layer: CaffeLayer) -> None:
        settings = layer.parameters("softmax_param", "axis")
        _only(settings, "axis", 1)
        logits = self._source(layer)
        for top in layer.tops:
            self._assembly.define_softmax(top, logits)
        self._assembly.note(f"'{layer.name}', a softmax, is part of the loss")

    def softmax_with_loss(self, layer: CaffeLayer) -> None:
        message = layer.message
        for name in message.fields:
            if name not in COMMON | TRAINING | {"loss_weight", "softmax_param", "loss_param"}:
                raise LineError(message.line_of(name), f"{name} is not supported here")
        settings = message.message("loss_param")
        if settings.text("normalization", "VALID") in ("NONE", "3"):
            raise LineError(settings.line_of("normalization"), "a sum over the batch: not a mean")
        if "ignore_label" in settings:
            self._assembly.note("ignore_label is not used: every image has a label here")
        if not layer.bottoms:
            raise NetdynoError("has no bottom")
        weight = message.number("loss_weight", 1.0)
        if weight == 0:
            self._assembly.note(f"'{layer.name}' was left out, since its loss_weight is 0")
            return
        self._assembly.loss(self._read(layer.bottoms[0]), layer.name, weight)
        self._has_loss = True

    def split(self, layer: CaffeLayer) -> None:
        source = self._source(layer)
        for top in layer.tops:
            self._assembly.define(top, source)

    def accuracy(self, layer: CaffeLayer) -> None:
        for top in layer.tops:
            self._assembly.define_other(top, "an accuracy")
        self._assembly.note(f"'{layer.name}' ({layer.type}) was left out")

    def silence(self, layer: CaffeLayer) -> None:
        for bottom in layer.bottoms:
            if not self._assembly.is_other(bottom):
                self._silenced.add(self._assembly.logits(bottom))


_TRANSLATE: dict[str, Callable[[Translator, CaffeLayer], None]] = {
    "Accuracy": Translator.accuracy,
    "BatchNorm": Translator.batch_norm,
    "Concat": Translator.concat,
    "Convolution": Translator.convolution,
    "Dropout": Translator.dropout,
    "Eltwise": Translator.eltwise,
    "Flatten": Translator.flatten,
    "InnerProduct": Translator.inner_product,
    "LRN": Translator.lrn,
    "Pooling": Translator.pooling,
    "ReLU": Translator.relu,
    "Scale": Translator.scale,
    "Silence": Translator.silence,
    "Softmax": Translator.softmax,
    "SoftmaxWithLoss": Translator.softmax_with_loss,
    "Split": Translator.split,
}
_UNSCALED = "needs a Scale { bias_term: true } right after it, as netdyno's batch norm has both"


def _geometry_fields() -> list[str]:
    sides = [f"{name}_{side}" for name in ("kernel", "stride", "pad") for side in "hw"]
    return ["kernel_size", "stride", "pad", *sides]


def _kernel(settings: Message) -> Pair:
    if not {"kernel_size", "kernel_h", "kernel_w"} & settings.fields.keys():
        raise LineError(settings.line, "has no kernel_size")
    return _pair(settings, "kernel_size", 0)


def _pair(settings: Message, field: str, default: int) -> Pair:
    """Height and width: from ``field``, once for both or once for each, or ``…_h`` and ``…_w``."""
    stem = field.removesuffix("_size")
    sides = (f"{stem}_h", f"{stem}_w")
    if any(side in settings for side in sides):
        if field in settings or not all(side in settings for side in sides):
            raise LineError(
                settings.line_of(next(s for s in sides if s in settings)),
                f"give {field}, or both of {' and '.join(sides)}",
            )
        return settings.integer(sides[0], 0), settings.integer(sides[1], 0)
    match settings.integers(field):
        case []:
            return default, default
        case [both]:
            return both, both
        case [height, width]:
            return height, width
    raise LineError(settings.line_of(field), f"{field} is given more than twice")


def _required(settings: Message, field: str) -> int:
    if field not in settings:
        raise LineError(settings.line, f"has no {field}")
    return settings.integer(field, 0)


def _only(settings: Message, field: str, value: int) -> None:
    if settings.integer(field, value) != value:
        raise LineError(settings.line_of(field), f"only {field}: {value} is supported")
