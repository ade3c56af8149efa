// The form for a new backend. Other keys are set with `beacon backends add --set` or in the configuration file.

import { el, field, select, setError } from "../dom.js";

const DIALECTS = ["openai", "modal", "execute", "http", "async", "comfyui"];
const PRESETS = ["replicate", "runpod", "fal"];

/** `add(backend, onFields)` resolves to whether it was added; `onFields(errors)` to whether it could show them. */
export function backendForm(add) {
  const text = (props) => el("input", { autocomplete: "off", maxlength: 200, ...props });
  const names = { regions: el("datalist", { id: "known-regions" }), groups: el("datalist", { id: "known-groups" }) };
  const controls = {
    name: text({ required: true, maxlength: 64 }),
    region: text({ required: true, list: "known-regions" }),
    dialect: select(DIALECTS.map((name) => [name])),
    preset: select(PRESETS.map((name) => [name])),
    url: text({ type: "url", required: true, maxlength: 2000, placeholder: "https://gpu-1.example.com/v1" }),
    models: text({ required: true, maxlength: 2000 }),
    slots: text({ type: "number", min: 0, value: 1, required: true }),
    group: text({ list: "known-groups" }),
    api_key_env: text({ placeholder: "GPU_KEY" }),
  };
  const preset = field("Provider", controls.preset);
  const showPreset = () => { preset.hidden = controls.dialect.value !== "async"; };
  controls.dialect.addEventListener("change", showPreset);
  showPreset();

  /** Only values that were given: the others have their defaults. */
  const backend = () => {
    const given = Object.fromEntries(Object.entries(controls).map(([key, control]) => [key, control.value.trim()]));
    const { models, slots, preset: provider, ...texts } = given;
    const named = models.split(/[\s,]+/).filter(Boolean);
    const filled = Object.fromEntries(Object.entries(texts).filter(([, value]) => value));
    return { ...filled, models: named, slots: Number(slots), ...(texts.dialect === "async" ? { preset: provider } : {}) };
  };

  function missing() {
    let first = null;
    for (const control of Object.values(controls)) {
      const empty = control.required && !control.value.trim();
      setError(control, empty ? "Enter a value." : null);
      if (empty) first ??= control;
    }
    return first;
  }

  /** Errors at their fields; false if one has no field here. */
  function showErrors(errors) {
    const placed = errors.map((error) => [controls[error.field.split(".").at(-1).replace(/\[\d+\]$/, "")], error.message]);
    if (!placed.length || placed.some(([control]) => !control)) return false;
    for (const [control, message] of placed) setError(control, message);
    placed[0][0].focus();
    return true;
  }

  const submit = async (event) => {
    event.preventDefault();
    const empty = missing();
    if (empty) return empty.focus();
    if (await add(backend(), showErrors)) for (const control of [controls.name, controls.url]) control.value = "";
    return undefined;
  };
  const node = el("form", { class: "fields", novalidate: true, onsubmit: submit },
    field("Name", controls.name), field("Region", controls.region), field("Dialect", controls.dialect), preset,
    field("URL", controls.url, { wide: true }),
    field("Models", controls.models, { wide: true, hint: "Names, separated by commas. New ones are added to the configuration." }),
    field("Slots", controls.slots, { hint: "Requests that the backend runs at the same time." }),
    field("Group", controls.group, { hint: "The group whose cap the backend shares." }),
    field("Variable with its key", controls.api_key_env, { hint: "Set in the routers' environment." }),
    names.regions, names.groups,
    el("div", { class: "actions" }, el("button", { class: "primary" }, "Add backend")));
  const setKnown = (backends) => {
    showOptions(names.regions, backends.map((one) => one.region));
    showOptions(names.groups, backends.map((one) => one.group));
  };
  return { node, setKnown };
}

/** Written only when they change: an open list would close. */
function showOptions(list, values) {
  const wanted = [...new Set(values)].filter(Boolean);
  const shown = [...list.children].map((option) => option.value);
  if (wanted.join("\n") !== shown.join("\n")) list.replaceChildren(...wanted.map((value) => el("option", { value })));
}
