// What it costs to go first, by how long the job is: the first step that reaches as far.

export function priceOf(prices, seconds) {
  const step = prices.find(({ up_to_s: limit }) => limit === null || limit === undefined || seconds <= limit);
  return step?.price ?? prices.at(-1)?.price ?? 0;
}
