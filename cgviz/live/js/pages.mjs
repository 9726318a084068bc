// The page cache. A page is known by its pass and by what is turned over in it: scopes, custom ops, a training's step.

/** The key of a page: its pass, and the names turned over in it, one per line, as a name may be `first, second`. */
export const pageKey = (which, names) => `${which}|${[...names].sort().join("\n")}`;

/** The names that are in the lists an odd number of times; "" is no name. */
export function turnedOver(...lists) {
  const found = new Set();
  for (const name of lists.flat()) if (!found.delete(name)) found.add(name);
  found.delete("");
  return [...found];
}

/** Which page is wanted, the pass `which` with `names` turned over, and the pages that are at hand. */
export class PageCache {
  names = [];

  constructor(doc, live) {
    this.live = live;
    this.which = doc.which;
    this.kept = new Map([[this.key, doc.pages], ...(doc.more ?? [])]);
    // The indices of questions, and the numbers of sliders, belong to the picture as it was at first.
    this.fixed = Boolean(doc.quiz || doc.sliders);
  }

  /** The key of the pages that are wanted, and these pages, if they are at hand. */
  get key() { return pageKey(this.which, this.names); }
  get pages() { return this.kept.get(this.key); }

  /** Whether a scope or a custom op can be opened or closed. */
  canTurn(name) {
    const stored = (key) => key.split(/[|\n]/).includes(name);
    return Boolean(name) && !this.fixed && (this.live || [...this.kept.keys()].some(stored));
  }

  /** Want another pass, or `names` turned over, too; without a kernel, what was stored of it: only `names`, or none. */
  turn(which, ...names) {
    const wanted = turnedOver(this.names, names);
    const choices = [wanted, wanted.filter((name) => names.includes(name)), []];
    this.names = choices.find((each) => this.live || this.kept.has(pageKey(which, each)));
    this.which = which;
  }
}
