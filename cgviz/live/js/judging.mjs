// Judging: is a learner's answer right, and if not, what was forgotten.
import { typedAll } from "./numbers.mjs";

/** Whether a learner's number is the one meant: to half a percent, or as far as it was rounded. */
export function near(given, meant) {
  if (Number.isNaN(meant)) return Number.isNaN(given);
  if (!Number.isFinite(meant)) return given === meant;
  return Math.abs(given - meant) <= Math.max(0.005 * Math.abs(meant), 1e-9);
}

const all = (given, meant) =>
  given.length === meant.length && given.every((x, i) => near(x, meant[i]));

/**
 * What an answer shows.
 *
 * A question has `answer`, a list of numbers, and `mistakes`, a list of [what was forgotten,
 * the numbers that come of forgetting it]. The verdict is "right", "unreadable", "count", the name
 * of a mistake, or "wrong".
 */
export function judge(text, question) {
  const word = text.trim().toLowerCase();
  if (question.answer === null) return word === "none" ? "right" : "none";
  const given = word === "nan" ? [NaN] : typedAll(text);
  const wantsNaN = question.answer.some((x) => numeric(x) !== numeric(x));
  if (!given.length || (!wantsNaN && given.some(Number.isNaN))) return "unreadable";
  const meant = question.answer.map(numeric);
  if (given.length !== meant.length) return "count";
  if (all(given, meant)) return "right";
  for (const [kind, numbers] of question.mistakes) if (all(given, numbers.map(numeric))) return kind;
  return "wrong";
}

const numeric = (x) =>
  typeof x === "string" ? { NaN, Infinity, "-Infinity": -Infinity }[x] : x;

export const VERDICTS = {
  right: "Right.",
  unreadable: "Type a number, such as 6 or \u22120.25.",
  count: "Not that many numbers: one for each entry.",
  none: "Not a number: nothing flows here. What does TensorFlow say for nothing?",
  sign: "Wrong sign: the size is right.",
  upstream: "You forgot upstream: this is the local derivative alone.",
  local: "You forgot the local derivative: this is upstream alone.",
  path: "You forgot to add the other path: a value used twice gets a gradient from each use.",
  times: "That is upstream \u00d7 local already: the local derivative alone is asked for.",
  multiplied: "You multiplied where paths add.",
  sum: "You added where the chain rule multiplies.",
  wrong: "Not yet. Multiply what arrives from above by the op\u2019s own derivative.",
};
