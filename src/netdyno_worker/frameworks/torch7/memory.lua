-- The tensors that a pass leaves in a network: nn keeps them from one pass to the next.

local memory = {}

-- Bytes of each storage that can be reached from `value`, and the field that holds it, by address.
-- Tensors that share a storage (views, what is done in place) count once.
local function storages(value, field, found, visited)
   if torch.isTensor(value) then
      local storage = value:storage()
      local address = storage and torch.pointer(storage)
      if address and not found[address] then
         found[address] = {field = field, bytes = storage:size() * storage:elementSize()}
      end
   elseif type(value) == 'table' and not visited[value] then
      visited[value] = true
      for key, inner in pairs(value) do
         -- A list of tensors is named as the field that it is in.
         storages(inner, type(key) == 'string' and key or field, found, visited)
      end
   end
   return found
end

-- What is no internal memory: it is there before the pass, or stays as its result.
local function foreign(network)
   local kept = {network.images, network.labels, network.flat_parameters, network.flat_gradients,
                 network.state, network.logits_read}
   for _, module in ipairs(network.batch_norms) do
      table.insert(kept, module.running_mean)
      table.insert(kept, module.running_var)
   end
   return storages(kept, '', {}, {})
end

-- Runs a phase. Returns every gradient that graph.lua has handed on meanwhile: a sum of several is
-- a tensor that no module holds, and stays until Lua collects it, which it does seldom.
local function run(network, phase)
   local graph, handed = network.graph, {}
   function graph:backward_node(node, sum, sums)
      getmetatable(graph).backward_node(self, node, sum, sums)
      for _, each in pairs(sums) do handed[each.tensor] = true end
   end
   network[phase](network)
   graph.backward_node = nil
   local tensors = {}
   for tensor in pairs(handed) do table.insert(tensors, tensor) end
   return tensors
end

-- Gives back what passes have left. Modules keep their parameters and running statistics.
function memory.clear(network)
   network.graph.container:clearState()
   network.graph.outputs, network.logits_read = nil, nil
   network.criterion = network:make_criterion()
   collectgarbage()
   collectgarbage() -- what has a finalizer goes the second time
end

-- Bytes that one pass takes from nothing, as "field<tab>bytes<tab>…": none of it is given back
-- before its end, so this is the peak as well.
function memory.internal_bytes(network, phase)
   memory.clear(network)
   local sums = run(network, phase)
   local kept, found, visited = foreign(network), {}, {}
   storages(network.graph.container, 'modules', found, visited)
   storages(network.criterion, 'criterion', found, visited)
   storages(sums, 'sums', found, visited)
   local by_field = {}
   for address, storage in pairs(found) do
      if not kept[address] then
         by_field[storage.field] = (by_field[storage.field] or 0) + storage.bytes
      end
   end
   local words = {}
   for field, bytes in pairs(by_field) do
      table.insert(words, field .. '\t' .. string.format('%d', bytes))
   end
   return table.concat(words, '\t')
end

return memory
