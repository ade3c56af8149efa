-- Used by operations on many messages: a client spends more on each argument than on all the words in one.
local function words(text)
  local found = {}
  for word in text:gmatch('([^\n]*)\n') do found[#found + 1] = word end
  return found
end
