// Time as the server sees it, and in words. Nothing here is ever negative.

let skewMs = 0;

/** Learn from an answer's Date header how far this machine's clock is off. */
export function learnSkew(response, sentAt) {
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const between = (sentAt + Date.now()) / 2;
  const skew = date + 500 - between; // the header has whole seconds
  skewMs = Math.abs(skew) < 2000 ? 0 : skew;
}

export function now() {
  return Date.now() + skewMs;
}

/** Seconds since an ISO moment, or until it with a minus sign turned away: at least 0. */
export function since(moment, until = now()) {
  const end = typeof until === "string" ? Date.parse(until) : until;
  return Math.max(0, (end - Date.parse(moment)) / 1000);
}

export function untilMoment(moment) {
  return Math.max(0, (Date.parse(moment) - now()) / 1000);
}

/** 0.24 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 0.005) return "0 s";
  if (s < 1) return `${s.toFixed(2)} s`;
  if (s < 10 && !Number.isInteger(s)) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  const [big, small] = [units[first], units[first + 1]];
  const rest = Math.floor((whole % big[1]) / small[1]);
  const head = `${Math.floor(whole / big[1])} ${big[0]}`;
  return rest ? `${head} ${rest} ${small[0]}` : head;
}

/** "just now", "12 s ago" */
export function ago(moment) {
  const seconds = since(moment);
  return seconds < 2 ? "just now" : `${span(Math.round(seconds))} ago`;
}

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const TIME = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export function exact(moment) {
  return EXACT.format(new Date(moment));
}

export function timeOfDay(moment) {
  return TIME.format(new Date(moment));
}
