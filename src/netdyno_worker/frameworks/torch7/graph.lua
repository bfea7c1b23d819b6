-- A directed graph of nn modules: what nngraph is, which not every installation has.
--
-- nn's own containers nest. They cannot express a layer that is read outside of its block, nor
-- several losses. What happens here is what they do: the same modules are called with the same
-- arguments in the same order. It does without the copies that nn.Concat and nn.ConcatTable make
-- of gradients.

local Graph = {}
Graph.__index = Graph

-- Of the images, which are no node.
Graph.IMAGES = 0

function Graph.new()
   -- An nn.Container for what it knows of its modules: getParameters, training.
   return setmetatable({container = nn.Container(), nodes = {}}, Graph)
end

-- Adds a module that reads the outputs of `sources` (node numbers); returns its own number.
--
-- `gradient` says in whose memory the gradient by its input is:
--   nil          in its own
--   'overwrites' in that of the gradient by its output, which it changes (a ReLU in place)
--   'views'      in that of the gradient by its output, which it leaves as it is
--   'shares'     likewise, and each of its inputs gets the same
-- `is_table`: the module wants a table of inputs even if it is only one.
function Graph:add(label, module, sources, gradient, is_table)
   local node = {label = label, module = module, sources = sources, gradient = gradient,
                 is_table = is_table}
   local behind = false -- a node that learns
   for _, source in ipairs(sources) do
      behind = behind or (source ~= Graph.IMAGES and self.nodes[source].learns)
   end
   node.learns = behind or module:parameters() ~= nil
   if not behind then
      -- Nothing before it learns: nn computes no gradient by the images then, as the networks of
      -- convnet-benchmarks do it in their first layer.
      module.gradInput = nil
   end
   self.container:add(module)
   self.nodes[#self.nodes + 1] = node
   return #self.nodes
end

local function input_of(node, outputs)
   if not node.is_table then return outputs[node.sources[1]] end
   local inputs = {}
   for index, source in ipairs(node.sources) do inputs[index] = outputs[source] end
   return inputs
end

-- Outputs by node number.
function Graph:forward(images)
   local outputs = {[Graph.IMAGES] = images}
   for number, node in ipairs(self.nodes) do
      self.label = node.label
      outputs[number] = node.module:forward(input_of(node, outputs))
   end
   self.outputs = outputs
   self.label = nil
   return outputs
end

-- A sum of gradients, which only the owner of its memory may change.
local function plus(sum, term)
   if not sum then return term end
   if sum.owned then
      sum.tensor:add(term.tensor)
      return sum
   end
   if term.owned then
      term.tensor:add(sum.tensor)
      return term
   end
   return {tensor = sum.tensor + term.tensor, owned = true}
end

-- Accumulates the gradients of parameters, after forward. `gradients`: by node number, those of the
-- loss by outputs that it reads.
function Graph:backward(gradients)
   local sums = {}
   for number, tensor in pairs(gradients) do sums[number] = {tensor = tensor, owned = true} end
   for number = #self.nodes, 1, -1 do
      local node, sum = self.nodes[number], sums[number]
      if sum and node.learns then
         self.label = node.label
         self:backward_node(node, sum, sums)
      end
      sums[number] = nil
   end
   self.label = nil
end

function Graph:backward_node(node, sum, sums)
   if node.gradient == 'overwrites' and not sum.owned then
      sum = {tensor = sum.tensor:clone(), owned = true}
   end
   local by_input = node.module:backward(input_of(node, self.outputs), sum.tensor)
   local owned = node.gradient ~= 'shares' and (node.gradient ~= 'views' or sum.owned)
   for index, source in ipairs(node.sources) do
      if source ~= Graph.IMAGES and self.nodes[source].learns then
         local tensor = node.is_table and by_input[index] or by_input
         sums[source] = plus(sums[source], {tensor = tensor, owned = owned})
      end
   end
end

return Graph
