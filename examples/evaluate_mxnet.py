import json

import mxnet as mx
from mxnet.gluon import data, nn

import netdyno

model = nn.HybridSequential()
model.add(
    nn.Conv2D(8, 3, padding=1),
    nn.BatchNorm(),
    nn.Activation("relu"),
    nn.GlobalAvgPool2D(),
    nn.Dense(10),
)
model.initialize(mx.init.Xavier())
model.hybridize(static_alloc=True, static_shape=True)

images = mx.nd.random.normal(shape=(72, 3, 16, 16))
labels = mx.nd.random.randint(0, 10, shape=(72,))
loader = data.DataLoader(data.ArrayDataset(images, labels), batch_size=32, shuffle=True)

result = netdyno.evaluate_framework(model, loader, device="cpu", batch_size=32)
print(json.dumps(result))
