// The price of skipping the queue: the first step whose limit covers the job's duration.

export function priceOf(prices, seconds) {
  const step = prices.find(({ up_to_s: limit }) => limit === null || limit === undefined || seconds <= limit);
  return step?.price ?? prices.at(-1)?.price ?? 0;
}
