// A sparkline of the samples that this page has received.

import { setAttr, svg } from "./dom.js";

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
