// Numbers: as they are written, and as a learner types them.

const MINUS = "\u2212";

/** A number in so many significant digits; whole numbers in full. */
export function number(x, digits = 4) {
  const shown = Number.isInteger(x) ? x : Number(x.toPrecision(digits));
  return String(shown).replaceAll("-", MINUS);
}

/** A number that a learner typed: a comma or a point, any minus, a fraction; NaN if it is none. */
export function typed(text) {
  const plain = text.replaceAll(MINUS, "-").replace(",", ".").replace(/inf(inity)?|\u221e/i, "Infinity");
  const [above, below, ...more] = plain.split("/").map((part) => (part.trim() ? Number(part) : NaN));
  return more.length ? NaN : above / (below ?? 1);
}

/** The numbers of a vector as typed: `[1, 2, 3]`, `1 2 3` or `1; 2; 3`. */
export function typedAll(text) {
  const inner = text.replace(/[[\]()]/g, " ").trim();
  const parts = inner.includes(";") || /,\s/.test(inner) ? inner.split(/[;,]\s*/) : inner.split(/\s+/);
  return parts.filter((part) => part).map(typed);
}
