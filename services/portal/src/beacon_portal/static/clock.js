// The server's time, and durations as text. Durations are never negative.

let skewMs = 0;

/** Estimate from the Date header how far this machine's clock is off. */
export function updateClockSkew(response, sentAt) {
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const between = (sentAt + Date.now()) / 2;
  const skew = date + 500 - between; // the header has whole seconds
  skewMs = Math.abs(skew) < 2000 ? 0 : skew;
}

export function now() {
  return Date.now() + skewMs;
}

/** Seconds since an ISO timestamp, at least 0. */
export function secondsSince(timestamp, until = now()) {
  const end = typeof until === "string" ? Date.parse(until) : until;
  return Math.max(0, (end - Date.parse(timestamp)) / 1000);
}

export function secondsUntil(timestamp) {
  return Math.max(0, (Date.parse(timestamp) - now()) / 1000);
}

/** 0.24 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h */
export function formatDuration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 0.005) return "0 s";
  if (s < 1) return `${s.toFixed(2)} s`;
  if (s < 10 && !Number.isInteger(s)) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  /** @type {[string, number][]} */
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  const [big, small] = [units[first], units[first + 1]];
  const rest = Math.floor((whole % big[1]) / small[1]);
  const head = `${Math.floor(whole / big[1])} ${big[0]}`;
  return rest ? `${head} ${rest} ${small[0]}` : head;
}

/** "just now", "12 s ago" */
export function formatAge(timestamp) {
  const seconds = secondsSince(timestamp);
  return seconds < 2 ? "just now" : `${formatDuration(Math.round(seconds))} ago`;
}

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export function formatDateTime(timestamp) {
  return EXACT.format(new Date(timestamp));
}

export function formatTime(timestamp) {
  return TIME.format(new Date(timestamp));
}
