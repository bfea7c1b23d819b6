-- The BLAS that this process has really loaded, asked of itself.

local ffi = require 'ffi'

ffi.cdef [[
char *openblas_get_config(void);
void MKL_Get_Version_String(char *buffer, int length);
]]

local function openblas(library)
   return ffi.string(library.openblas_get_config())
end

local function mkl(library)
   local buffer = ffi.new('char[256]')
   library.MKL_Get_Version_String(buffer, 255)
   return ffi.string(buffer)
end

-- Name and version by the beginning of a file's name; the most telling first.
local known = {
   {'libopenblas', 'openblas', openblas},
   {'libmkl_rt', 'mkl', mkl},
   {'libmkl_core', 'mkl', mkl},
   {'libblas', 'blas', nil},
   {'libcblas', 'blas', nil},
   {'libatlas', 'blas', nil},
}

-- Name and version of the BLAS; nothing if none of those that are known is loaded.
local function blas()
   local maps = io.open('/proc/self/maps')
   local paths = {}
   if not maps then return end
   for line in maps:lines() do
      local path = line:match('%s(/.*)$')
      if path then paths[path] = path:match('[^/]*$') end
   end
   for _, entry in ipairs(known) do
      local prefix, name, version_of = unpack(entry)
      for path, file in pairs(paths) do
         if file:sub(1, #prefix) == prefix then
            local ok, version = pcall(function() return version_of(ffi.load(path)) end)
            return name, ok and version or file
         end
      end
   end
end

return {blas = blas}
