-- A network of nn modules from the neutral layers of a job: forward, backward and update.

local layers = dofile(here .. '/layers.lua')

local Network = {}
Network.__index = Network

-- `job`: see adapter.py. Parameters are uninitialized.
function Network.new(job)
   local self = setmetatable({
      graph = dofile(here .. '/graph.lua').new(),
      parameters = {}, -- tensors in the neutral order; a layer with groups has one for each
      gradients = {}, -- likewise
      batch_norms = {}, -- modules
      losses = {},
      readers = {}, -- how many, by name of a layer
      by_name = {},
      nodes = {images = 0}, -- the number of each layer's output in the graph
   }, Network)
   for _, layer in ipairs(job.layers) do
      self.by_name[layer.name] = layer
      for _, name in ipairs(layer.inputs) do
         self.readers[name] = (self.readers[name] or 0) + 1
      end
   end
   for _, layer in ipairs(job.layers) do
      local sources = {}
      for index, name in ipairs(layer.inputs) do sources[index] = self.nodes[name] end
      self.nodes[layer.name] = layers[layer.kind](self, layer, sources)
   end
   self.output = self.nodes[job.output]
   self.criterion = self:make_criterion()
   self.flat_parameters, self.flat_gradients = self.graph.container:getParameters()
   self.graph.container:training()
   self.hyperparameters = {
      learningRate = job.learning_rate,
      momentum = job.momentum,
      dampening = 0, -- optim's default is the momentum, which nobody else has
      weightDecay = job.weight_decay,
   }
   self:restart()
   return self
end

function Network:make_criterion()
   if #self.losses == 1 and self.losses[1].weight == 1 then return nn.CrossEntropyCriterion() end
   local criterion = nn.ParallelCriterion(true)
   for _, loss in ipairs(self.losses) do
      criterion:add(nn.CrossEntropyCriterion(), loss.weight)
   end
   return criterion
end

-- Momentum to zero; running mean to 0, variance to 1.
function Network:restart()
   self.state = {}
   for _, module in ipairs(self.batch_norms) do
      module.running_mean:zero()
      module.running_var:fill(1)
   end
end

-- What the criterion reads: a tensor, or a table of them.
function Network:logits(outputs)
   if torch.type(self.criterion) == 'nn.CrossEntropyCriterion' then
      return outputs[self.losses[1].node]
   end
   local logits = {}
   for index, loss in ipairs(self.losses) do logits[index] = outputs[loss.node] end
   return logits
end

function Network:forward()
   self.logits_read = self:logits(self.graph:forward(self.images))
   self.loss = self.criterion:forward(self.logits_read, self.labels)
end

function Network:forward_backward()
   self.flat_gradients:zero() -- nn accumulates
   self:forward()
   local by_logits = self.criterion:backward(self.logits_read, self.labels)
   local gradients = {}
   for index, loss in ipairs(self.losses) do
      local gradient = torch.isTensor(by_logits) and by_logits or by_logits[index]
      local known = gradients[loss.node]
      gradients[loss.node] = known and known:add(gradient) or gradient
   end
   self.graph:backward(gradients)
end

function Network:train_step()
   local function evaluate()
      self:forward_backward()
      return self.loss, self.flat_gradients
   end
   optim.sgd(evaluate, self.flat_parameters, self.hyperparameters, self.state)
end

return Network
