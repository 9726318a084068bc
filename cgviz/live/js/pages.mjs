// The page cache. A page is known by its pass and by what is turned over in it: scopes, custom ops, a step of a training.

/** The name of a page: its pass, and what is turned over in it, a line each: a name may be `first, second`. */
export const pageKey = (which, names) => `${which}|${[...names].sort().join("\n")}`;

/** The names of which an odd number are in the lists; "" is none. */
export function turnedOver(...lists) {
  const found = new Set();
  for (const name of lists.flat()) if (!found.delete(name)) found.add(name);
  found.delete("");
  return [...found];
}

/** Which page is wanted, the pass `which` with `names` turned over, and those that were seen. */
export class PageCache {
  names = [];

  constructor(doc, live) {
    this.live = live;
    this.which = doc.which;
    this.kept = new Map([[this.key, doc.pages], ...(doc.more ?? [])]);
    // Indices of questions, and numbers that travel alone, belong to the picture as it was at first.
    this.fixed = Boolean(doc.quiz || doc.sliders);
  }

  get key() {
    return pageKey(this.which, this.names);
  }

  /** What is wanted, if it is at hand. */
  get pages() {
    return this.kept.get(this.key);
  }

  /** The names that begin with these words, such as "step:" for the step of a training. */
  chosen(words) {
    return this.names.filter((name) => name.startsWith(words));
  }

  /** Whether a scope or a custom op can be opened or closed. */
  canTurn(name) {
    return Boolean(name) && !this.fixed && (this.live || [...this.kept.keys()].some((key) => key.split(/[|\n]/).includes(name)));
  }

  /** Want another pass, or more turned over; of what was not stored without a kernel, as little else turned over as can be. */
  turn(which, ...names) {
    const wanted = turnedOver(this.names, names);
    const choices = [wanted, wanted.filter((name) => names.includes(name)), []];
    this.names = choices.find((each) => this.live || this.kept.has(pageKey(which, each)));
    this.which = which;
  }
}
