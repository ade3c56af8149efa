-- Used by operations on many messages: a client spends more on each argument than on all the words in one.
local function words(text)
  local found, n, from, to = {}, 0, 1, text:find('\n', 1, true)
  while to do
    n = n + 1
    found[n], from = text:sub(from, to - 1), to + 1
    to = text:find('\n', from, true)
  end
  return found
end
