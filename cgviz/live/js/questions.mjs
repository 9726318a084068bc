// Questions: what is asked, what was answered, and what must not be told until then.
import { h, say, toggle } from "./dom.mjs";
import { VERDICTS, judge } from "./judging.mjs";

/** The questions of a quiz; of a view without one there are none, and everything is told. */
export class Questions {
  constructor(quiz) {
    this.all = quiz?.questions ?? [];
    this.answered = new Set();
    this.hide();
  }

  get open() {
    return this.all.filter((q) => this.isOpen(q));
  }

  isOpen(q) {
    return !this.answered.has(q.key);
  }

  at(step) {
    return this.all.filter((q) => q.step === step);
  }

  /** No step beyond the first that has an open question. */
  allowed(step) {
    return Math.min(step, ...this.open.map((q) => q.step));
  }

  answer(q) {
    this.answered.add(q.key);
    this.hide();
  }

  /** Collect the nodes and links whose gradient is asked for. */
  hide() {
    const { open } = this;
    this.hidden = {
      nodes: new Set(open.flatMap((q) => q.nodes)),
      links: new Set(open.filter((q) => q.link !== null).map((q) => q.link)),
    };
  }

  /** Whether the card of a node or a link would tell too much at a step. */
  hides(kind, i, lines, step) {
    if (!this.open.length) return false;
    if (kind === "link") return this.hidden.links.has(i) || lines.links[i].come > step;
    const { orders } = lines.nodes[i];
    return !orders.length || orders.some((o) => o > step) || this.at(orders[0]).some((q) => this.isOpen(q));
  }
}

/** The form of an open question; `done` is called when it is answered. */
export function questionInk(q, id, on, done) {
  const input = h("input", { id, type: "text", autocomplete: "off", inputmode: "text", spellcheck: "false" });
  const verdict = h("p.verdict", { role: "status" });
  const reveal = h("button", { type: "button" }, "Reveal");
  const form = h("form", {}, input, h("button", { type: "submit" }, "Check"), reveal);
  const decide = (event) => {
    event.preventDefault();
    const found = judge(input.value, q);
    toggle(verdict, "right", found === "right");
    say(verdict, (found === "right" ? "\u2713 " : "\u2717 ") + VERDICTS[found]);
    if (found === "right") done();
  };
  on(form, "submit", decide);
  // A notebook keeps Enter from submitting a form in an output.
  on(input, "keydown", (event) => event.key === "Enter" && decide(event));
  on(reveal, "click", done);
  return h("section.input", {}, h("p.subtitle", {}, h("label", { for: id }, q.text)), form, verdict);
}

/** A question that was answered. */
export function answerInk(q) {
  return h("section.input", {}, h("p.subtitle", {}, q.text), h("p.right", {}, `\u2713 ${q.shown}`),
    q.why ? h("p.none", {}, q.why) : null);
}
