// Questions: what is asked, how an answer is judged, and what must not be told until then.
import { h, s, say, section, set, toggle, use } from "./dom.mjs";
import { ALIGNED } from "./picture.mjs";

export const counted = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
/** The questions of a quiz; a view without a quiz has none, and tells all. A question is `done` when answered. */
export class Questions {
  constructor(quiz) {
    this.all = (quiz?.questions ?? []).map((q) => ({ ...q })); // copies: two views may show one quiz
  }

  get open() { return this.all.filter((q) => !q.done); }
  at(step) { return this.all.filter((q) => q.step === step); }
  openAt(step) { return this.open.filter((q) => q.step === step); }

  /** `step`, or the step of the first open question if that is earlier; and up to which step everything is told. */
  allowed(step) { return Math.min(step, ...this.open.map((q) => q.step)); }
  told(step) { return Math.min(step, ...this.open.map((q) => q.step - 0.5)); }

  /** The nodes and links whose gradient is asked for. */
  get hidden() {
    return { nodes: new Set(this.open.flatMap((q) => q.nodes)), links: new Set(this.open.map((q) => q.link)) };
  }

  get earned() {
    const [every, shown] = [this.all.length, this.all.filter((q) => q.revealed).length];
    return shown ? `${every - shown} of ${every} predicted, ${shown} revealed` : "All predicted";
  }
}

// An open question: its `field`, where its "?" is in the picture, and its `section` of the side panel. `done` is called
// when it is answered, with whether the answer was only revealed; `told` when the question or a verdict is to be told.
export function ask(q, display, done, told) {
  const decide = () => {
    const found = judge(input.value, q), right = found === "right";
    toggle(verdict, "right", right);
    set(input, { "aria-invalid": !right });
    q.verdict = `${right ? "✓" : "✗"} ${(VERDICTS[found] ?? found).replace("#", counted(q.answer.length, "number"))}`;
    say(verdict, q.verdict);
    told();
    if (right) done(false);
    else input.select(); // to type another at once
  };
  const stress = (on) => () => toggle(part, "asking", on) && told();
  const asking = { onfocus: stress(true), onblur: stress(false) };
  const button = (words, run) => h("button", { type: "button", onclick: run, ...asking }, words);
  const input = h("input", {
    type: "text", "aria-label": q.text, value: q.typed, placeholder: "?", autocomplete: "off", spellcheck: "false",
    onbeforeinput: (event) => isNumber(event) || event.preventDefault(),
    oninput: () => (q.typed = input.value), // so that it stays when the picture is rebuilt
    onkeydown: (event) => use(event, event.key === "Enter" && decide),
    ...asking,
  });
  const verdict = h("p.verdict");
  const part = section(q.text, h("p", {}, button("Check", decide), " ", button("Reveal", () => done(true))), verdict);
  const [of, i] = q.link === null ? ["node", q.node] : ["link", q.link];
  const label = display.texts.find((text) => text.of === of && text.i === i && text.role === "gradient");
  const [width, height] = q.size.map((size) => size - 4); // 2 points clear of its place on each side, and so of arrows
  const [x, y] = [["x", "anchor"], ["y", "side"]].map(([at, by], n) => label[at] - ALIGNED[label[by]] * q.size[n] + 2);
  return { section: part, field: s("foreignObject.answer", { x, y, width, height }, input) };
}

/** A question that was answered, or whose answer was revealed. */
export function answered({ text, shown, revealed }) {
  return section(text, revealed ? h("p.none.revealed", {}, `revealed: ${shown}`) : h("p.right", {}, `✓ ${shown}`));
}

/** Whether a key can belong to a number: keys of the view mean nothing in a field. What is pasted is judged. */
function isNumber({ data, target: { value, selectionStart } }) {
  const [word] = `${value.slice(0, selectionStart)}${data}`.toLowerCase().match(/\p{L}*$/u);
  return data?.length !== 1 || ["e", "infinity", "nan"].some((each) => each.startsWith(word));
}

/** The number typed, with a comma or a point, or as a fraction. */
const value = (text) => text.replace(/\s/g, "").replaceAll(",", ".").replace(/inf(inity)?|\u221e/gi, "Infinity")
  .split("/").map(Number).reduce((above, below) => above / below);

/** The numbers typed, in any brackets, between spaces, `,` or `;`; none if there is more. `mark` is the decimal one. */
function numbers(text, mark) {
  const digits = `(?:\\d+\\.(?!\\d)|\\d+(?:[${mark}]\\d+)?|\\.\\d+)(?:e[-+]?\\d+)?`;
  const one = `[-+]?\\s*(?:${digits}|inf(?:inity)?|\u221e|\\bnan\\b)`;
  const found = new RegExp(`${one}(?:\\s*/\\s*${one})?`, "gi");
  return /[^\s,;()[\]]/.test(text.replace(found, " ")) ? [] : (text.match(found) ?? []).map(value);
}

/** Whether a learner's number is the one meant, to half a percent, or to the rounding error of a number next to 0. */
const near = (given, meant, noise) => Object.is(given, meant)
  || (Number.isFinite(meant) && Math.abs(given - meant) <= Math.max(0.005 * Math.abs(meant), noise));
const all = (given, meant, noise) => given.every((x, i) => near(x, Number(meant[i]), noise));

// What an answer shows: one of VERDICTS, or a mistake or the hint in words. A question has `answer`, a list of numbers
// (or "NaN" or "Infinity", which JSON cannot hold), `mistakes`, a list of [the mistake in words, the numbers that it
// makes], a `hint`, and `noise`, its rounding error.
export function judge(text, question) {
  const plain = text.replace(/[\u2212\u2013]/g, "-");
  const whole = plain.replace(/(\d),(?=\d{3}(?!\d))/g, "$1"); // `1,200` is 1200, 1.2, or 1 and 200
  const readings = [numbers(whole, "."), numbers(plain, ".,"), numbers(plain, ".")].filter((each) => each.length);
  const given = readings.filter((each) => each.length === question.answer.length);
  if (!given.length) return readings.length ? "count" : "unreadable";
  const fits = ([, meant]) => given.some((each) => all(each, meant, question.noise));
  return [["right", question.answer], ...question.mistakes].find(fits)?.[0] ?? question.hint;
}

const UNREADABLE = "Type a number, such as 6 or \u22120.25.";
export const VERDICTS = { right: "Right.", unreadable: UNREADABLE, count: "The answer has #." };
