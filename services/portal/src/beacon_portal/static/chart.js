// A sparkline of the samples that this page has received, and bars.

import { el, setAttr, setText, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;
const MAX_SAMPLES = 150;
const MIN_SAMPLES = 20;

export class Sparkline {
  #samples = [];
  #line = svg("polyline", { class: "spark-line" });
  #area = svg("polygon", { class: "spark-area" });
  node;
  #label;

  constructor(label) {
    this.#label = label;
    const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" };
    this.node = svg("svg", { class: "spark", role: "img", ...box }, this.#area, this.#line);
  }

  add(value) {
    this.#samples.push(value, ...(this.#samples.length ? [] : [value])); // a line needs two points
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    const top = Math.max(1, ...this.#samples);
    const step = WIDTH / (Math.max(this.#samples.length, MIN_SAMPLES) - 1);
    const start = WIDTH - (this.#samples.length - 1) * step;
    const points = this.#samples.map((sample, index) => {
      return `${(start + index * step).toFixed(1)},${(HEIGHT - 2 - (sample / top) * (HEIGHT - 6)).toFixed(1)}`;
    });
    setAttr(this.#line, "points", points.join(" "));
    setAttr(this.#area, "points", `${start.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`);
    const highest = Math.max(...this.#samples);
    setAttr(this.node, "aria-label", `${this.#label}: now ${value}, highest ${highest} since this page was opened`);
  }
}

const BAR_HEIGHT = 120;

/** A bar per value, with the same values as a list for screen readers. */
export class BarChart {
  #bars = svg("g", { class: "bars" });
  #text = el("ul", { class: "visually-hidden" });
  #top = el("figcaption", { class: "muted" });
  node;

  constructor(label) {
    this.node = el("figure", { class: "bar-chart" }, this.#top,
      svg("svg", { viewBox: `0 0 ${WIDTH} ${BAR_HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.#bars),
      this.#text);
    setAttr(this.#text, "aria-label", label);
  }

  /** @param {{label: string, value: number}[]} values */
  show(values) {
    const top = Math.max(1, ...values.map(({ value }) => value));
    const step = WIDTH / values.length;
    this.#bars.replaceChildren(...values.map(({ label, value }, index) => {
      const height = (value / top) * (BAR_HEIGHT - 2);
      const box = { x: (index * step + step * 0.1).toFixed(2), width: (step * 0.8).toFixed(2), y: (BAR_HEIGHT - height).toFixed(2), height: height.toFixed(2) };
      return svg("rect", box, svg("title", {}, `${label}: ${value.toLocaleString()}`));
    }));
    this.#text.replaceChildren(...values.filter(({ value }) => value > 0).map(({ label, value }) => el("li", {}, `${label}: ${value.toLocaleString()}`)));
    const last = values.at(-1);
    setText(this.#top, last ? `${values[0].label} to ${last.label}, highest ${top.toLocaleString(undefined, { maximumFractionDigits: 1 })}` : "");
  }
}
