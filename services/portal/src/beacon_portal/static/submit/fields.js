// Shared by the forms: optional numbers, and the target of a field error.

import { setError } from "../dom.js";

/** The values that are filled in, as numbers. */
export function numbers(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== "");
  return Object.fromEntries(filled.map(([name, value]) => [name, Number(value)]));
}

/** A control as the target of a field error. */
export function errorTarget(control) {
  if (!control) return null;
  return { setError: (message) => setError(control, message), focus: () => control.focus() };
}
