-- luajit worker.lua JOB ANSWERS: builds the network of JOB, then obeys the lines of its input.
--
-- forward, forward_backward and train_step are not answered, so that whoever asks for them need not
-- wait. Every other command is answered by one line, "ok …" or "error …", in the file ANSWERS:
-- standard output is anybody's. After an error nothing more is done. Files that commands name are
-- those of the working folder. It ends with its input, and with the process that started it.

here = arg[0]:match('^(.*)/[^/]*$') or '.'

local ffi = require 'ffi'
if ffi.os == 'Linux' then
   ffi.cdef 'int prctl(int option, unsigned long argument);'
   ffi.C.prctl(1, 9) -- PR_SET_PDEATHSIG, SIGKILL: it may be hours into a computation
end

require 'torch'
require 'nn'
require 'optim'

local arrays = dofile(here .. '/arrays.lua')
local libraries = dofile(here .. '/libraries.lua')
local memory = dofile(here .. '/memory.lua')
local Network = dofile(here .. '/network.lua')

local job = dofile(arg[1])
local answers = assert(io.open(arg[2], 'w'))
answers:setvbuf('no')

local network
local commands = {}
local unanswered = {forward = true, forward_backward = true, train_step = true}

function commands.build()
   torch.setdefaulttensortype(job.precision == 'fp64' and 'torch.DoubleTensor' or 'torch.FloatTensor')
   torch.setnumthreads(job.threads)
   torch.manualSeed(job.seed)
   network = Network.new(job)
   -- getParameters has left every parameter twice.
   collectgarbage()
   collectgarbage()
end

function commands.load(path)
   arrays.read(path, network.parameters)
   network:restart()
end

function commands.set_batch(images, labels)
   network.images = torch.Tensor(torch.LongStorage(job.input_shape))
   arrays.read(images, {network.images})
   network.labels = arrays.read_integers(labels):add(1) -- Lua counts from 1
end

function commands.forward() network:forward() end
function commands.forward_backward() network:forward_backward() end
function commands.train_step() network:train_step() end

function commands.synchronize() end -- what came before it is done

function commands.loss() return string.format('%.17g', network.loss) end

function commands.logits(path)
   arrays.write(path, {network.graph.outputs[network.output]})
end

function commands.gradients(path) arrays.write(path, network.gradients) end

function commands.parameters(path) arrays.write(path, network.parameters) end

function commands.running_statistics(path)
   local found = {}
   for _, module in ipairs(network.batch_norms) do
      table.insert(found, module.running_mean)
      table.insert(found, module.running_var)
   end
   arrays.write(path, found)
end

function commands.clear() memory.clear(network) end

function commands.internal_bytes(phase) return memory.internal_bytes(network, phase) end

function commands.threads() return torch.getnumthreads() end

function commands.versions()
   local name, version = libraries.blas()
   return 'luajit\t' .. jit.version .. (name and '\t' .. name .. '\t' .. version or '')
end

local failure

local function explain(message)
   local label = network and network.graph.label
   failure = (label and "layer '" .. label .. "': " or '') .. tostring(message):gsub('%s+', ' ')
   io.stderr:write(debug.traceback(tostring(message)), '\n')
end

for line in io.stdin:lines() do
   local words = {}
   for word in line:gmatch('%S+') do table.insert(words, word) end
   local name, result = words[1]
   if not failure then
      local _
      _, result = xpcall(function() return commands[name](words[2], words[3]) end, explain)
   end
   if not unanswered[name] then
      answers:write(failure and 'error ' .. failure or 'ok ' .. tostring(result or ''), '\n')
   end
end
