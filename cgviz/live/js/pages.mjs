// The page cache, by the pass and by what is opened or closed; and what Python and the page tell each other.

/** The name of a page among those at hand. */
export const pageKey = (which, toggled) => `${which}|${[...toggled].sort().join(",")}`;

/** The names in both or in neither are left out: what `name` turns over. */
export function turnedOver(toggled, ...names) {
  const found = new Set(toggled);
  for (const name of names) if (!found.delete(name)) found.add(name);
  return found;
}

/** Of the pages at hand, the one most like the wanted one in which `name` is as it is there. */
export function nearestKey(keys, which, toggled, name) {
  let [best, least] = ["", Infinity];
  for (const key of keys) {
    const [pass, names] = [Number(key.split("|", 1)[0]), new Set(toggledOf(key))];
    if (pass !== which || (name && names.has(name) !== toggled.has(name))) continue;
    const others = [...turnedOver(names, ...toggled)].length;
    if (others < least) [best, least] = [key, others];
  }
  return best;
}

/** What is turned over in a page, by its name. */
export const toggledOf = (key) => key.slice(key.indexOf("|") + 1).split(",").filter((name) => name);

const isMoment = (name) => name.startsWith("step:");

/** Which pages are wanted, and those that were seen. */
export class PageCache {
  constructor(doc, live) {
    this.live = live;
    this.which = doc.which;
    this.toggled = new Set(); // the names of scopes and custom ops that are not as they were at first
    this.moment = ""; // of a training: the name of its step, unless it is the first
    this.kept = new Map([[this.key, doc.pages], ...(doc.more ?? [])]);
    // Indices of questions, and numbers that travel alone, belong to the picture as it was at first.
    this.fixed = Boolean(doc.quiz || doc.sliders);
    this.stored = new Set([...this.kept.keys()].flatMap(toggledOf));
  }

  get key() {
    return pageKey(this.which, this.names);
  }

  /** What a page is called by: what is turned over, and the step of a training. */
  get names() {
    return this.moment ? [...this.toggled, this.moment] : [...this.toggled];
  }

  /** Whether a scope or a custom op can be opened or closed. */
  canTurn(name) {
    return !this.fixed && (this.live || this.stored.has(name));
  }

  /** Want another pass, one more thing turned over, or another step of a training. */
  turn(which, name, moment = this.moment) {
    Object.assign(this, { which, moment });
    if (name) this.toggled = turnedOver(this.toggled, name);
    if (this.live || this.kept.has(this.key)) return;
    const keys = [...this.kept.keys()].filter((key) => (toggledOf(key).find(isMoment) ?? "") === moment);
    const nearest = toggledOf(nearestKey(keys, which, new Set(this.names), name));
    this.toggled = new Set(nearest.filter((each) => !isMoment(each)));
    if (!this.pages) this.moment = ""; // of other passes only the first step is in a file
  }

  /** Want everything as it was at first. */
  reset() {
    this.toggled = new Set();
  }

  /** Other pages take the place of all. */
  replace(pages) {
    this.reset();
    this.kept = new Map([[this.key, pages]]);
  }

  /** What is wanted, if it is at hand. */
  get pages() {
    return this.kept.get(this.key);
  }
}

// --- Python and the page ---

/** Whether the kernel can still be told. */
export const isLive = (model) => model.cgvizStatic !== true;

/** Keep a view and its model alike. `shown()` is what the model is told: { step, which, selected }. */
export class Sync {
  constructor(model, signal, shown) {
    Object.assign(this, { model, signal, shown, timer: 0 });
    signal.addEventListener("abort", () => clearTimeout(this.timer), { once: true });
  }

  /** Call `run` on each event of the model, until the view is taken away. */
  on(event, run) {
    this.model.on(event, run);
    this.signal.addEventListener("abort", () => this.model.off(event, run), { once: true });
  }

  /** Whether something is still to be told: until then what comes back is old. */
  get pending() {
    return this.timer !== 0;
  }

  /** Tell the model soon; many changes are told once. */
  share() {
    if (this.pending || this.signal.aborted) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (!isLive(this.model)) return;
      for (const [name, value] of Object.entries(this.shown())) {
        if (this.model.get(name) !== value) this.model.set(name, value);
      }
      this.model.save_changes();
    }, 250);
  }
}
