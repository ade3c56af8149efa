// A short history as a line, drawn from the samples this page has seen.

import { attr, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;
const KEPT = 150;
const NARROWEST = 20;

export class Spark {
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
    this.#samples.push(value, ...(this.#samples.length ? [] : [value])); // one point is no line
    if (this.#samples.length > KEPT) this.#samples.shift();
    const top = Math.max(1, ...this.#samples);
    const step = WIDTH / (Math.max(this.#samples.length, NARROWEST) - 1);
    const start = WIDTH - (this.#samples.length - 1) * step;
    const points = this.#samples.map((sample, index) => {
      return `${(start + index * step).toFixed(1)},${(HEIGHT - 2 - (sample / top) * (HEIGHT - 6)).toFixed(1)}`;
    });
    attr(this.#line, "points", points.join(" "));
    attr(this.#area, "points", `${start.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`);
    const highest = Math.max(...this.#samples);
    attr(this.node, "aria-label", `${this.#label}: now ${value}, highest ${highest} since this page was opened`);
  }
}
