// The card: what is chosen, and its rule with the numbers, upstream x local = downstream.
import { h } from "./dom.mjs";
import { isOpen } from "./picture.mjs";
import { answerInk, questionInk } from "./questions.mjs";
import { at, nodeAt } from "./time.mjs";
import { flat } from "./words.mjs";

/** The card beside the pictures of a view. It is made anew only where something else is to be shown. */
export class Card {
  constructor(view) {
    this.view = view;
    this.element = h("div.card", { role: "group", "aria-label": "Card of what is chosen", tabindex: 0 });
    this.shown = "";
    this.asked = new Set();
  }

  /** Make it anew the next time, for the numbers have changed. */
  forget() {
    this.shown = "";
  }

  /** What it is about: what the pointer is on, what was chosen, what is asked, or the op of the moment. */
  get topic() {
    const { state, questions, page } = this.view;
    const asked = questions.at(state.step);
    const open = asked.find((q) => questions.isOpen(q)) ?? asked.at(-1);
    const current = open ? open.node : nodeAt(page.lines, this.view.stepOn(page));
    return state.hover ?? (state.selected || (current >= 0 ? `node ${current}` : ""));
  }

  paint() {
    const { view, element, topic } = this;
    const { state, questions, shelf } = view;
    const quiz = questions.all.length > 0;
    const answered = questions.at(state.step).map((q) => questions.isOpen(q)).join();
    const come = topic.startsWith("link") || quiz ? Math.max(state.step, 0) : "";
    const key = [topic, state.side, shelf.which, come, answered].join("/");
    if (key === this.shown) return;
    if (state.hover && element.contains(view.focused) && view.focused.tagName === "INPUT") return; // somebody types
    this.shown = key;
    const [kind, place] = topic.split(" ");
    const i = Number(place);
    if (!kind) element.replaceChildren(h("p.none", {}, "Step through with the arrows, or choose an op or an arrow for its card."));
    else if (kind === "node") element.replaceChildren(...this.node(i));
    else element.replaceChildren(...linkCard(view.page, i, view.stepOn(view.page), this.hides(kind, i) || (quiz ? null : false)));
    if (kind === "node") this.ask(i);
  }

  hides(kind, i) {
    return this.view.questions.hides(kind, i, this.view.page.lines, this.view.state.step);
  }

  node(i) {
    const { view } = this;
    const { lines, notes } = view.page;
    const { group, orders } = lines.nodes[i];
    const hide = this.hides("node", i);
    const note = hide ? veiled(notes[i], orders.some((o) => o <= view.state.step)) : notes[i];
    const own = view.questions.at(view.state.step).filter((q) => q.node === i);
    const found = own.length
      ? [...nodeCard(bare(note), {}), ...own.map((q) => this.question(q))]
      : nodeCard(note, { hide });
    if (group && view.shelf.canTurn(group)) found.push(this.opener(group, isOpen(lines, group)));
    return found;
  }

  question(q) {
    const { view } = this;
    return view.questions.isOpen(q) ? questionInk(q, `${view.id}-${q.key}`, view.on, () => view.answer(q)) : answerInk(q);
  }

  opener(group, open) {
    const button = h("button", { type: "button", "aria-expanded": String(open) }, open ? "Close" : "Open");
    this.view.on(button, "click", () => this.view.turnOver(group));
    return h("p", {}, button);
  }

  /** Ask Python for the local Jacobians of a large page, which are made on demand. */
  ask(i) {
    const { view, asked } = this;
    const { model, shelf, state } = view;
    const key = `${shelf.key} ${state.side}`;
    if (view.page.notes[i]?.asked !== false || asked.has(key) || view.explore?.busy()) return;
    asked.add(key);
    model.send({ ask: "notes", which: shelf.which, toggled: [...shelf.toggled], side: state.side, key });
  }
}

/** A note before its step: what arrived is known, what the rule makes of it is not. */
function veiled(note, arrived) {
  const outputs = note.outputs.map((o) => ({ ...o, upstream: arrived ? o.upstream : null, parts: arrived ? o.parts : [] }));
  return bare({ ...note, outputs });
}

/** A note without what the rule hands back. */
const bare = (note) => ({ ...note, rule: note.rule ?? note.inputs.length > 0, inputs: [], variables: undefined });

const term = (word, value, extra = "") =>
  h(`div.term${extra}`, {}, h("span.small", {}, word), h("span.big", {}, value));

/** The card of a node: what it is, and its rule with the numbers. */
function nodeCard(note, parts) {
  const head = h("p.title", {}, h("span", {}, note.title), " ", h("span.kind", {}, note.kind));
  const found = [head];
  for (const [name, value] of note.facts) found.push(fact(name, value));
  for (const output of note.outputs.slice(0, 4)) found.push(...outputRows(output, note.rule ?? note.inputs.length > 0));
  if (note.ops) found.push(opsTable(note.ops));
  note.inputs.forEach((input, j) => found.push(product(note, input, parts, j)));
  if (note.variables) found.push(variablesTable(note.variables));
  return found;
}

const fact = (name, value) =>
  h("p.fact", {}, h("span.small", {}, `${name} `), name === "your code" || name === "backward rule" ? h("code", {}, value) : value);

function outputRows(output, rule) {
  const found = [
    h("p.fact", {}, h("span.small", {}, "value "), h("span.forwardtext", {}, `${output.name} = ${output.value}`),
      h("span.small", {}, ` ${output.is}`)),
  ];
  if (output.upstream === null) return found;
  const word = rule ? "upstream " : "gradient ";
  const parts = output.parts ?? [];
  const sum = parts.length > 1 ? `${parts.map(([, g]) => g).join(" + ").replaceAll("+ \u2212", "\u2212 ")} = ` : "";
  found.push(h("p.fact", {}, h("span.small", {}, word), h("span.backtext", {}, sum + output.upstream)));
  if (parts.length > 1) {
    found.push(h("ul.parts", {}, ...parts.map(([from, g]) => h("li", {}, h("span.backtext", {}, g), ` ${from}`))));
  }
  return found;
}

/** upstream x local = downstream, for one input. */
function product(note, input, { question, hide }) {
  const title = h("p.subtitle", {}, `to ${input.name}`, h("span.small", {}, ` = ${input.value}, ${input.is}`));
  if (!input.flows) {
    return h("section.input", {}, title, h("p.none", {}, `\u2205 None: nothing flows back to ${input.name}.`));
  }
  const down = question ?? (hide ? h("span.big", {}, "?") : null);
  const result = down
    ? h("div.term", {}, h("span.small", {}, "downstream"), down)
    : term("downstream", input.downstream, ".backtext");
  const rowsOf = input.products.length ? input.products : [null];
  const body = rowsOf.map((p, n) => {
    if (p?.cells && !question && !hide) return heatmap(p);
    const up = p ? p.upstream : note.outputs.map((o) => o.upstream ?? "None").join(", ");
    const terms = [term("upstream", up, ".backtext"), h("span.sign", {}, "\u00d7")];
    terms.push(p?.cells ? smallMatrix(p) : term("local", p ? p.local : "\u2026"), h("span.sign", {}, "="));
    return h("div.product", {}, ...terms, n === rowsOf.length - 1 || p?.cells ? result : "+");
  });
  const odd = input.other && !question && !hide
    ? h("p.none", {}, `\u2260 upstream \u00d7 local would be ${input.other}: this rule is not linear in its upstream.`)
    : null;
  return h("section.input", {}, title, ...body, odd);
}

function smallMatrix(p) {
  const rowsOf = p.cells.map((row, i) => h("tr", {}, ...row.map((cell, j) => tint(h("td", {}, cell), p.heat[i][j]))));
  return h("div.term", {}, h("span.small", {}, "local"), h("table.heat", {}, h("tbody", {}, ...rowsOf)));
}

function tint(cell, heat) {
  cell.style.setProperty("--cgviz-heat", `${Math.round(Math.abs(heat) * 42)}%`);
  if (heat < 0) cell.classList.add("cgviz-negative");
  return cell;
}

/** A small Jacobian as a heat map; upstream stands before its rows as their weights. */
function heatmap(p) {
  const head = h("tr", {}, h("th", { scope: "col" }, "upstream"), h("td.sign", {}), h("td", {}),
    ...p.columns.map((c) => h("th", { scope: "col" }, c)));
  const body = p.cells.map((row, i) =>
    h("tr", {}, h("td.backtext", {}, p.weights[i]), h("td.sign", {}, "\u00d7"), h("th", { scope: "row" }, p.rows[i]),
      ...row.map((cell, j) => tint(h("td", {}, cell), p.heat[i][j]))));
  const foot = h("tr.sum", {}, h("th", { scope: "row", colspan: 3 }, "downstream"),
    ...p.sum.map((x) => h("td.backtext", {}, x)));
  const caption = "local Jacobian: each row is weighted by its upstream, and the rows are added";
  return h("div.scroll", { tabindex: 0, role: "group", "aria-label": caption }, h("p.small", { "aria-hidden": "true" }, caption),
    h("table.heat", {}, h("thead", {}, head), h("tbody", {}, ...body), h("tfoot", {}, foot)));
}

function variablesTable(variables) {
  const body = variables.map(([name, gradient], i) =>
    h("tr", {}, h("td", {}, String(i)), h("th", { scope: "row" }, name), h("td.backtext", {}, gradient)));
  return h("table.plain", {}, h("caption", {}, "`variables`, in the order TensorFlow handed them to the rule"),
    h("thead", {}, h("tr", {}, ...["place", "variable", "gradient"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, ...body));
}

function opsTable(ops) {
  return h("table.plain", {}, h("caption", {}, "the ops folded here"),
    h("tbody", {}, ...ops.map(([name, type, is]) =>
      h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, type), h("td.small", {}, is)))));
}

/** The card of a link: the value one way, the gradient the other. */
function linkCard(page, i, step, hidden) {
  const link = page.lines.links[i];
  const text = page.texts.links[i];
  const from = page.notes[link.from];
  const to = link.target ? null : page.notes[link.to];
  const now = at(page.lines, step).links[i];
  const title = to ? `${from.title} \u2192 ${to.title}` : `${from.title} \u2192 target`;
  const found = [h("p.title", {}, h("span", {}, title), " ", h("span.kind", {}, to ? "one use of a value" : "where the pass starts"))];
  found.push(fact("value", h("span.forwardtext", {}, text.spoken)));
  if (text.blocked) found.push(h("p.none", {}, `${flat(text.gradient)}: no gradient flows back here.`));
  else if (text.gradient) {
    const back = hidden ? "?" : !now.back ? "not yet" : text.back;
    found.push(fact("gradient back", h("span.backtext", {}, back)));
  }
  if (to && !hidden && to.inputs[link.position]) {
    const input = to.inputs[link.position];
    if (input.flows) found.push(product(to, input, {}));
  }
  const parts = from.outputs.length === 1 ? from.outputs[0].parts ?? [] : [];
  if (parts.length > 1 && hidden === false) {
    found.push(h("p.none", {}, `One of ${parts.length} parts: together ${parts.map(([, g]) => g).join(" + ").replaceAll("+ \u2212", "\u2212 ")} = ${from.outputs[0].upstream}.`));
  }
  return found;
}
