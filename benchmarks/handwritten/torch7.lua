-- AlexNet (one weird trick) and a training loop, written as Torch7's tutorials and
-- convnet-benchmarks write them.
--
-- luajit torch7.lua forward_backward|train_step RATE MOMENTUM DECAY, in a folder with raw files;
-- each line of input is a number of iterations, each answer the seconds that they took and the loss.

require 'torch'
require 'nn'
require 'optim'

torch.setdefaulttensortype('torch.FloatTensor')
torch.setnumthreads(tonumber(os.getenv('OMP_NUM_THREADS')))

local model = nn.Sequential()
model:add(nn.SpatialConvolution(3, 64, 11, 11, 4, 4, 2, 2))
model:add(nn.ReLU(true))
model:add(nn.SpatialMaxPooling(3, 3, 2, 2))
model:add(nn.SpatialConvolution(64, 192, 5, 5, 1, 1, 2, 2))
model:add(nn.ReLU(true))
model:add(nn.SpatialMaxPooling(3, 3, 2, 2))
model:add(nn.SpatialConvolution(192, 384, 3, 3, 1, 1, 1, 1))
model:add(nn.ReLU(true))
model:add(nn.SpatialConvolution(384, 256, 3, 3, 1, 1, 1, 1))
model:add(nn.ReLU(true))
model:add(nn.SpatialConvolution(256, 256, 3, 3, 1, 1, 1, 1))
model:add(nn.ReLU(true))
model:add(nn.SpatialMaxPooling(3, 3, 2, 2))
model:add(nn.View(256 * 6 * 6))
model:add(nn.Linear(256 * 6 * 6, 4096))
model:add(nn.ReLU(true))
model:add(nn.Linear(4096, 4096))
model:add(nn.ReLU(true))
model:add(nn.Linear(4096, 1000))
model:get(1).gradInput = nil -- nobody wants the gradient by the images
local criterion = nn.CrossEntropyCriterion()
model:training()

local parameters, gradients = model:getParameters()
parameters:copy(torch.FloatTensor(torch.FloatStorage('parameters')))
local labels = torch.IntTensor(torch.IntStorage('labels')):long():add(1)
local images = torch.FloatTensor(labels:size(1), 3, 224, 224)
images:copy(torch.FloatTensor(torch.FloatStorage('images')))
collectgarbage()
collectgarbage()

local loss

local function evaluate()
   gradients:zero()
   local output = model:forward(images)
   loss = criterion:forward(output, labels)
   model:backward(images, criterion:backward(output, labels))
   return loss, gradients
end

local config = {
   learningRate = tonumber(arg[2]),
   momentum = tonumber(arg[3]),
   dampening = 0,
   weightDecay = tonumber(arg[4]),
}

local function train()
   optim.sgd(evaluate, parameters, config)
end

local step = arg[1] == 'train_step' and train or evaluate
local timer = torch.Timer()
io.stdout:setvbuf('no')
for line in io.stdin:lines() do
   timer:reset()
   for _ = 1, tonumber(line) do step() end
   print(string.format('%.9f %.9g', timer:time().real, loss))
end
