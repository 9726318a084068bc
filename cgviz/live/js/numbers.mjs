// Numbers: the number format of style.py, and numbers as a learner types them.

const MINUS = "\u2212";

/** One number as `style.number` writes it. */
export function number(x, digits = 4) {
  if (x === null || x === undefined) return "None";
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return (x < 0 ? MINUS : "") + "\u221e";
  let whole = Math.abs(x) < 1e7 && Number.isInteger(x);
  if (!whole) {
    x = Number(rounded(x, Math.abs(x) >= 1e4 && Math.abs(x) < 1e5 ? 5 : digits));
    whole = Math.abs(x) < 1e5 && Number.isInteger(x);
  }
  const text = whole ? String(x === 0 ? 0 : x) : general(x, digits);
  return text.replaceAll("-", MINUS);
}

/** x to so many significant digits, in scientific notation, halves to even as Python does. */
function rounded(x, digits) {
  const exact = Math.abs(x).toExponential(60);
  const kept = exact[0] + exact.slice(2, 2 + digits - 1);
  const rest = exact.slice(2 + digits - 1, exact.indexOf("e"));
  let text = x.toExponential(digits - 1);
  if (/^50*$/.test(rest) && Number(kept.at(-1)) % 2 === 0) {
    text = `${x < 0 ? "-" : ""}${kept[0]}.${kept.slice(1)}${exact.slice(exact.indexOf("e"))}`;
  }
  return text;
}

/** C's %g. */
function general(x, digits) {
  const [mantissa, exponent] = rounded(x, digits).split("e");
  const power = Number(exponent);
  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (power < -4 || power >= digits) return `${trimmed(mantissa)}e${power}`;
  return trimmed(Number(`${mantissa}e${power}`).toFixed(digits - 1 - power));
}

/** A number that a learner typed: a comma or a point, any minus, a fraction; NaN if it is none. */
export function typed(text) {
  const plain = text.trim().replaceAll(MINUS, "-").replace(",", ".");
  const fraction = plain.match(/^([-+]?[\d.]+)\s*\/\s*([\d.]+)$/);
  if (fraction) return Number(fraction[1]) / Number(fraction[2]);
  if (/^[-+]?(inf|infinity|\u221e)$/i.test(plain)) return plain[0] === "-" ? -Infinity : Infinity;
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

/** The numbers of a vector as typed: `[1, 2, 3]`, `1 2 3` or `1; 2; 3`. */
export function typedAll(text) {
  const inner = text.replace(/[[\]()]/g, " ").trim();
  const parts = inner.includes(";") || /,\s/.test(inner) ? inner.split(/[;,]\s*/) : inner.split(/\s+/);
  return parts.filter((part) => part).map(typed);
}
