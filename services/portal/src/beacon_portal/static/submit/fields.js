// What the forms share: numbers that may be left out, and controls that problems are about.

import { complain } from "../dom.js";

/** Only what was filled in, as numbers. */
export function numbers(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== "");
  return Object.fromEntries(filled.map(([name, value]) => [name, Number(value)]));
}

/** A control as a place for a problem. */
export function fieldPlace(control) {
  if (!control) return null;
  return { complain: (message) => complain(control, message), focus: () => control.focus() };
}
