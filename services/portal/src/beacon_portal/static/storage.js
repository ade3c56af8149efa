// Browser storage; memory for the life of the page where the browser denies it or it is full.

export class SafeStorage {
  #memory = new Map();
  /** @type {Storage | null} */
  #storage = null;

  /** `open()` returns the storage; browsers that block storage throw there. */
  constructor(open) {
    try {
      this.#storage = open();
    } catch {
      // Only memory is left.
    }
  }

  get(name) {
    return this.#memory.get(name) ?? this.#storage?.getItem(name) ?? null;
  }

  set(name, value) {
    this.remove(name);
    try {
      if (!this.#storage) throw new Error("storage is blocked");
      this.#storage.setItem(name, value);
    } catch {
      this.#memory.set(name, value);
    }
  }

  remove(name) {
    this.#memory.delete(name);
    this.#storage?.removeItem(name);
  }

  names() {
    return [...this.#memory.keys(), ...Object.keys(this.#storage ?? {})];
  }
}

export const tabStorage = new SafeStorage(() => window.sessionStorage);
export const browserStorage = new SafeStorage(() => window.localStorage);
