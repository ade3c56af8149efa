-- Splits one argument of many values, each followed by a line break: cheaper for a client than many arguments.
local function unpack_args(text)
  local values = {}
  for value in text:gmatch('([^\n]*)\n') do values[#values + 1] = value end
  return values
end
