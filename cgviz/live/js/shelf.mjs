// The shelf: the pages at hand, by the pass and by what is opened or closed.

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

/** Which pages are wanted, and those that were seen. */
export class Shelf {
  constructor(doc, live) {
    this.live = live;
    this.which = doc.which;
    this.toggled = new Set(); // the names of scopes and custom ops that are not as they were at first
    this.kept = new Map([[this.key, doc.pages], ...(doc.more ?? [])]);
    // Indices of questions, and numbers that travel alone, belong to the picture as it was at first.
    this.fixed = Boolean(doc.quiz || doc.sliders);
    this.stored = new Set([...this.kept.keys()].flatMap(toggledOf));
  }

  get key() {
    return pageKey(this.which, this.toggled);
  }

  /** Whether a scope or a custom op can be opened or closed. */
  canTurn(name) {
    return !this.fixed && (this.live || this.stored.has(name));
  }

  /** Want another pass, or one more thing turned over. */
  turn(which, name) {
    this.which = which;
    if (name) this.toggled = turnedOver(this.toggled, name);
    if (this.live || this.kept.has(this.key)) return;
    this.toggled = new Set(toggledOf(nearestKey(this.kept.keys(), which, this.toggled, name)));
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
