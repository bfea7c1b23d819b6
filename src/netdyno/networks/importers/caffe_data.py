"""Caffe's data layers: of what size their images are."""

from __future__ import annotations

from netdyno.networks.graph import Shape
from netdyno.networks.importers.text_format import Message

__all__ = ["DATA_TYPES", "data_shape"]

DATA_TYPES = {
    "Data",
    "DummyData",
    "HDF5Data",
    "ImageData",
    "Input",
    "MemoryData",
    "WindowData",
}


def data_shape(message: Message) -> Shape | None:
    """``(C, H, W)`` of a data layer's images, as far as its settings tell."""
    shapes = [
        shape.integers("dim")
        for field in ("input_param", "dummy_data_param")
        for shape in message.message(field).messages("shape")
    ]
    if shapes:
        return tuple(shapes[0][1:]) if len(shapes[0]) == 4 else None
    for field in ("dummy_data_param", "memory_data_param"):
        settings = message.message(field)
        sizes = [settings.integers(name)[:1] for name in ("channels", "height", "width")]
        if all(sizes):
            return sizes[0][0], sizes[1][0], sizes[2][0]
    return _image_shape(message)


def _image_shape(message: Message) -> Shape | None:
    """Of images from files, which become as large as they are cropped or scaled to."""
    images = message.message("image_data_param")
    transform = message.message("transform_param")
    size = transform.integer("crop_size", 0)
    for field in ("data_param", "image_data_param", "window_data_param"):
        size = size or message.message(field).integer("crop_size", 0)
    height, width = size, size
    if not size:
        height, width = images.integer("new_height", 0), images.integer("new_width", 0)
    colours = images.flag("is_color", True) and not transform.flag("force_gray", False)
    return (3 if colours else 1, height, width) if height and width else None
