-- Raw little-endian files of float32, float64 or int32, one array behind the other, no header.

local arrays = {}

-- Fills tensors, one behind the other, from a file of float32, whatever their own type.
function arrays.read(path, tensors)
   local flat = torch.FloatTensor(torch.FloatStorage(path))
   local start = 1
   for _, tensor in ipairs(tensors) do
      local count = tensor:nElement()
      tensor:copy(flat:narrow(1, start, count))
      start = start + count
   end
   assert(start == flat:nElement() + 1, path .. ' has another number of values')
end

-- A LongTensor of what is in a file of int32.
function arrays.read_integers(path)
   return torch.IntTensor(torch.IntStorage(path)):long()
end

-- Writes tensors of one type, float or double, one behind the other.
function arrays.write(path, tensors)
   local count = 0
   for _, tensor in ipairs(tensors) do count = count + tensor:nElement() end
   local flat = torch.Tensor(count)
   local start = 1
   for _, tensor in ipairs(tensors) do
      flat:narrow(1, start, tensor:nElement()):copy(tensor)
      start = start + tensor:nElement()
   end
   local file = torch.DiskFile(path, 'w'):binary():littleEndianEncoding()
   local written
   if torch.type(flat) == 'torch.FloatTensor' then
      written = file:writeFloat(flat:storage())
   else
      written = file:writeDouble(flat:storage())
   end
   file:close()
   assert(written == count, 'cannot write ' .. path .. ': no room?')
end

return arrays
