-- Prints what the LuaJIT that runs this has of Torch7, one "key<tab>value" a line, or what it lacks.

local needed = {'torch', 'nn', 'optim'}

local function lacks(words)
   -- A module that is not found lists every place that was tried: nobody wants to read those.
   print('lacks\t' .. tostring(words):gsub(':?\n%s*no f[^\n]*', ''):gsub('%s+', ' '))
   os.exit(0)
end

if type(jit) ~= 'table' then
   lacks('is ' .. _VERSION .. ' and not LuaJIT, whose ffi nn needs')
end
for _, name in ipairs(needed) do
   local ok, message = pcall(require, name)
   if not ok then lacks('cannot load ' .. name .. ': ' .. tostring(message)) end
end

print('luajit\t' .. jit.version)
for _, name in ipairs(needed) do
   print('lua\t' .. package.searchpath(name, package.path))
end

-- What is loaded now, but for the parts of the C library, which say nothing about Torch7.
local of_the_system = {ld = true, libc = true, libm = true, libdl = true, librt = true,
                       libpthread = true, libgcc_s = true}
local seen = {}
local maps = io.open('/proc/self/maps')
if maps then
   for line in maps:lines() do
      local path, name = line:match('%s(/.*/([^/]*%.so[%d.]*))$')
      if path and not seen[path] and not of_the_system[name:match('^[%w_]+')] then
         seen[path] = true
         print('library\t' .. path)
      end
   end
end
