// Loads what comes into view: a page with hundreds of images requests only those near the screen.

const MARGIN = "400px";
const MAX_CONCURRENT = 6;

/** One per page; loads nothing more once the signal has aborted. */
export class LazyLoader {
  #works = new Map();
  #waiting = [];
  #active = 0;
  #observer = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: MARGIN });
  signal;

  constructor(signal) {
    this.signal = signal;
    signal.addEventListener("abort", () => {
      this.#observer.disconnect();
      this.#waiting.length = 0;
    });
  }

  /** Run `work` once when the element comes near the screen. */
  whenVisible(node, work) {
    this.#works.set(node, work);
    this.#observer.observe(node);
  }

  #seen(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.#observer.unobserve(target);
      this.#waiting.push(this.#works.get(target));
      this.#works.delete(target);
    }
    this.#next();
  }

  #next() {
    while (this.#active < MAX_CONCURRENT && this.#waiting.length && !this.signal.aborted) {
      this.#active += 1;
      Promise.resolve(this.#waiting.shift()()).finally(() => { this.#active -= 1; this.#next(); });
    }
  }
}
