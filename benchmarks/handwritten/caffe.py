"""AlexNet (one weird trick) as a prototxt, run by pycaffe as Caffe's own examples do.

overhead_pair.py has built netdyno's net before this is imported: scikit-image and SciPy, which
pycaffe imports and a managed environment lacks, have stand-ins by then.
"""

import tempfile
import time
from pathlib import Path

import caffe

NET = """
name: "AlexNet"
layer {{ name: "data" type: "Input" top: "data"
  input_param {{ shape {{ dim: {batch} dim: 3 dim: 224 dim: 224 }} }} }}
layer {{ name: "label" type: "Input" top: "label" input_param {{ shape {{ dim: {batch} }} }} }}
layer {{ name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param {{ num_output: 64 kernel_size: 11 stride: 4 pad: 2 }} }}
layer {{ name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }}
layer {{ name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param {{ pool: MAX kernel_size: 3 stride: 2 }} }}
layer {{ name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param {{ num_output: 192 kernel_size: 5 pad: 2 }} }}
layer {{ name: "relu2" type: "ReLU" bottom: "conv2" top: "conv2" }}
layer {{ name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param {{ pool: MAX kernel_size: 3 stride: 2 }} }}
layer {{ name: "conv3" type: "Convolution" bottom: "pool2" top: "conv3"
  convolution_param {{ num_output: 384 kernel_size: 3 pad: 1 }} }}
layer {{ name: "relu3" type: "ReLU" bottom: "conv3" top: "conv3" }}
layer {{ name: "conv4" type: "Convolution" bottom: "conv3" top: "conv4"
  convolution_param {{ num_output: 256 kernel_size: 3 pad: 1 }} }}
layer {{ name: "relu4" type: "ReLU" bottom: "conv4" top: "conv4" }}
layer {{ name: "conv5" type: "Convolution" bottom: "conv4" top: "conv5"
  convolution_param {{ num_output: 256 kernel_size: 3 pad: 1 }} }}
layer {{ name: "relu5" type: "ReLU" bottom: "conv5" top: "conv5" }}
layer {{ name: "pool5" type: "Pooling" bottom: "conv5" top: "pool5"
  pooling_param {{ pool: MAX kernel_size: 3 stride: 2 }} }}
layer {{ name: "fc6" type: "InnerProduct" bottom: "pool5" top: "fc6"
  inner_product_param {{ num_output: 4096 }} }}
layer {{ name: "relu6" type: "ReLU" bottom: "fc6" top: "fc6" }}
layer {{ name: "fc7" type: "InnerProduct" bottom: "fc6" top: "fc7"
  inner_product_param {{ num_output: 4096 }} }}
layer {{ name: "relu7" type: "ReLU" bottom: "fc7" top: "fc7" }}
layer {{ name: "fc8" type: "InnerProduct" bottom: "fc7" top: "fc8"
  inner_product_param {{ num_output: 1000 }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "fc8" bottom: "label" top: "loss" }}
"""
SOLVER = """
net: "{net}"
type: "SGD"
lr_policy: "fixed"
base_lr: {0}
momentum: {1}
weight_decay: {2}
"""


def fill(net, images, labels, parameters):
    net.blobs["data"].data[...] = images
    net.blobs["label"].data[...] = labels
    values = iter(parameters)
    for blobs in net.params.values():
        for blob in blobs:  # weight, then bias
            blob.data[...] = next(values)


def make(job, images, labels, parameters):
    """``run(iterations) -> (seconds, loss)``, from NumPy arrays in the neutral layout."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.prototxt")
        path.write_text(NET.format(batch=len(images)))
        net = caffe.Net(str(path), caffe.TRAIN)
    fill(net, images, labels, parameters)

    def run(iterations):
        start = time.perf_counter()
        for _ in range(iterations):
            net.clear_param_diffs()
            net.forward()
            net.backward()
        return time.perf_counter() - start, float(net.blobs["loss"].data)

    return run


def make_train_step(job, images, labels, parameters):
    """The same for train steps."""
    with tempfile.TemporaryDirectory() as folder:
        net, path = Path(folder, "net.prototxt"), Path(folder, "solver.prototxt")
        net.write_text(NET.format(batch=len(images)))
        path.write_text(SOLVER.format(*job.hyperparameters, net=net))
        solver = caffe.SGDSolver(str(path))
    fill(solver.net, images, labels, parameters)

    def run(iterations):
        start = time.perf_counter()
        solver.step(iterations)
        return time.perf_counter() - start, float(solver.net.blobs["loss"].data)

    return run
