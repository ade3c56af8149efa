// What it costs to go first, by how long the wait is: the first step that reaches as far.

export function priceOf(prices, waitSeconds) {
  const step = prices.find(({ up_to_s: limit }) => limit === null || limit === undefined || waitSeconds <= limit);
  return step?.price ?? prices.at(-1)?.price ?? 0;
}
