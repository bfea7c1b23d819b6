-- Each kind of layer as nn modules. `layers[kind](network, layer, sources)` adds nodes to the graph
-- and returns the number of the one whose output is the layer's.

local layers = {}

-- What these put out is not needed for their own backward pass: a single reader may overwrite it.
local overwritable = {Conv = true, Dense = true, BatchNorm = true, Add = true}

local function may_overwrite(network, name)
   local source = network.by_name[name]
   return source and overwritable[source.kind] and network.readers[name] == 1
end

-- Notes what a layer learns: of all modules its weights, then its biases.
local function learn(network, modules)
   for _, short in ipairs {'weight', 'bias'} do
      for _, module in ipairs(modules) do
         if module[short] then
            local gradient = module[short == 'weight' and 'gradWeight' or 'gradBias']
            table.insert(network.parameters, module[short])
            table.insert(network.gradients, gradient)
         end
      end
   end
end

local function convolution(layer, planes, filters)
   local module = nn.SpatialConvolution(
      planes, filters, layer.kernel[2], layer.kernel[1], layer.stride[2], layer.stride[1],
      layer.padding[2], layer.padding[1])
   return layer.bias and module or module:noBias()
end

function layers.Conv(network, layer, sources)
   local graph, planes, groups = network.graph, layer.input_shape[1], layer.groups
   if groups == 1 then
      local module = convolution(layer, planes, layer.filters)
      learn(network, {module})
      return graph:add(layer.name, module, sources)
   end
   -- nn has no groups: a convolution of its own for each, as its users write it.
   local modules, ends = {}, {}
   for group = 1, groups do
      local part = nn.Narrow(2, (group - 1) * planes / groups + 1, planes / groups)
      modules[group] = convolution(layer, planes / groups, layer.filters / groups)
      local narrowed = graph:add(layer.name, part, sources)
      ends[group] = graph:add(layer.name, modules[group], {narrowed})
   end
   learn(network, modules)
   return graph:add(layer.name, nn.JoinTable(2), ends, nil, true)
end

function layers.Pool(network, layer, sources)
   local class = layer.reduction == 'max' and nn.SpatialMaxPooling or nn.SpatialAveragePooling
   local module = class(
      layer.kernel[2], layer.kernel[1], layer.stride[2], layer.stride[1], layer.padding[2],
      layer.padding[1])
   if layer.ceil_mode then module:ceil() else module:floor() end
   if layer.reduction == 'average' and not layer.count_padding then
      module:setCountExcludePad()
   end
   return network.graph:add(layer.name, module, sources)
end

function layers.ReLU(network, layer, sources)
   local in_place = may_overwrite(network, layer.inputs[1])
   local gradient = in_place and 'overwrites' or nil
   return network.graph:add(layer.name, nn.ReLU(in_place or false), sources, gradient)
end

function layers.LRN(network, layer, sources)
   local module = nn.SpatialCrossMapLRN(layer.size, layer.alpha, layer.beta, layer.k)
   return network.graph:add(layer.name, module, sources)
end

function layers.BatchNorm(network, layer, sources)
   local module = nn.SpatialBatchNormalization(layer.input_shape[1], layer.eps, layer.momentum)
   learn(network, {module})
   table.insert(network.batch_norms, module)
   return network.graph:add(layer.name, module, sources)
end

function layers.Concat(network, layer, sources)
   return network.graph:add(layer.name, nn.JoinTable(2), sources, nil, true)
end

function layers.Add(network, layer, sources)
   -- In place, as the residual networks of Torch7 have it, where there is an input to add to.
   for index, name in ipairs(layer.inputs) do
      if may_overwrite(network, name) then
         sources[1], sources[index] = sources[index], sources[1]
         return network.graph:add(layer.name, nn.CAddTable(true), sources, 'shares', true)
      end
   end
   return network.graph:add(layer.name, nn.CAddTable(), sources, nil, true)
end

function layers.Dense(network, layer, sources)
   local module = nn.Linear(layer.input_shape[1], layer.units)
   if not layer.bias then module:noBias() end
   learn(network, {module})
   return network.graph:add(layer.name, module, sources)
end

function layers.Dropout(network, layer, sources)
   return network.graph:add(layer.name, nn.Dropout(layer.rate), sources)
end

function layers.Flatten(network, layer, sources)
   local module = nn.View(layer.output_shape[1]):setNumInputDims(3)
   return network.graph:add(layer.name, module, sources, 'views')
end

-- The loss is no module of the graph but a criterion: see network.lua.
function layers.SoftmaxCrossEntropy(network, layer, sources)
   table.insert(network.losses, {node = sources[1], weight = layer.weight})
end

return layers
