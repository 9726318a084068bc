// The side panel: what is chosen, and its rule with the numbers, upstream x local = downstream; and the table.
import { flat } from "./aria.mjs";
import { h } from "./dom.mjs";
import { isOpen } from "./picture.mjs";
import { answered } from "./predict.mjs";
import { nodeAt } from "./time.mjs";

/** The side panel of a view. It is made anew only where something else is to be shown. */
export class Panel {
  constructor(view) {
    this.view = view;
    this.element = h("div.panel", { role: "group", "aria-label": "Details of what is chosen", tabindex: 0 });
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
    const current = open ? open.node : nodeAt(page.display, this.view.stepOn(page));
    return state.hover ?? (state.selected || (current >= 0 ? `node ${current}` : ""));
  }

  paint() {
    const { view, element, topic } = this;
    const { state, questions, cache } = view;
    const done = questions.at(state.step).map((q) => questions.isOpen(q)).join();
    const key = [topic, state.side, cache.which, state.step, done].join("/");
    if (key === this.shown) return;
    this.shown = key;
    view.pinned = null;
    const [kind, place] = topic.split(" ");
    const i = Number(place);
    if (!kind) element.replaceChildren(h("p.none", {}, "Step through with the arrows, or choose an op or an arrow for its details."));
    else if (kind === "node") element.replaceChildren(...this.node(i));
    else element.replaceChildren(...linkDetails(view.page, i, this.step, this.hides(kind, i), this.arrived(view.page.display.links[i].source)));
    if (kind === "node") this.ask(i);
    view.light();
  }

  /** The moment on the page that it is about. */
  get step() {
    return this.view.stepOn(this.view.page);
  }

  hides(kind, i) {
    return this.view.questions.hides(kind, i, this.view.page.display, this.step);
  }

  /** Whether every gradient that flows back to a node has come, and none of them is asked for. */
  arrived(i) {
    const { display } = this.view.page;
    return !this.view.questions.hidden.nodes.has(i) && display.links.every((link) => link.source !== i || link.step <= this.step);
  }

  node(i) {
    const { view } = this;
    const { display, panels } = view.page;
    const { group, orders } = display.nodes[i];
    const ran = display.nodes[i].step <= this.step;
    const shown = soFar(panels[i], ran, this.arrived(i), this.hides("node", i));
    if (orders[0] > this.step && !shown.ops) shown.awaited = orders[0];
    const own = view.questions.at(view.state.step).filter((q) => q.node === i);
    const found = own.length
      ? [...nodeDetails(bare(shown)), ...own.map((q) => this.question(q))]
      : nodeDetails(shown);
    if (shown.paths) found.push(this.paths(shown.paths));
    if (group && view.cache.canTurn(group)) found.push(this.opener(group, isOpen(display, group)));
    return found;
  }

  question(q) {
    const { view } = this;
    return view.questions.isOpen(q) ? view.form(q).section : answered(q, view.questions.revealed.has(q.key));
  }

  /** The paths of the chain rule to a node: each lights up while the pointer or the focus is on it, or once it was clicked. */
  paths(every) {
    const { view } = this;
    const { display, panels } = view.page;
    return h("section.input", {}, h("p.subtitle", {}, "the chain rule, path by path"), h("ul.parts", {}, ...every.map((path) => {
      const through = path.links.slice(1).map((i) => panels[display.links[i].target].title);
      const button = h("button.path", { type: "button", "aria-pressed": "false" },
        h("span.backtext", {}, [path.products[0], ...path.factors].join(" \u00b7 "), ` = ${path.products.at(-1)}`), h("span.small", {}, ` through ${through.join(", ")}`));
      button.cgvizPath = path;
      for (const type of ["pointerenter", "focus"]) view.on(button, type, () => view.light(path));
      for (const type of ["pointerleave", "blur"]) view.on(button, type, () => view.light());
      view.on(button, "click", () => view.pin(view.pinned === path ? null : path));
      return h("li", {}, button);
    })));
  }

  /** Show which path is pinned. */
  press(path) {
    for (const button of this.element.querySelectorAll(".cgviz-path")) button.setAttribute("aria-pressed", String(button.cgvizPath === path));
  }

  opener(group, open) {
    const button = h("button", { type: "button", "aria-expanded": String(open) }, open ? "Close" : "Open");
    this.view.on(button, "click", () => this.view.turnOver(group));
    return h("p", {}, button);
  }

  /** Ask Python for the local Jacobians of a large page, which are made on demand. */
  ask(i) {
    const { view, asked } = this;
    const { model, cache, state } = view;
    const key = `${cache.key} ${state.side}`;
    if (view.page.panels[i]?.asked !== false || asked.has(key) || view.explore?.busy()) return;
    asked.add(key);
    model.send({ ask: "panels", which: cache.which, toggled: cache.names, side: state.side, key });
  }
}

const LATER = "not yet";

/** What is known of a node: its value once it `ran`, upstream once it `arrived`, the rest unless it is hidden. */
function soFar(panel, ran, arrived, hidden) {
  const outputs = panel.outputs.map((o) => ({
    ...o,
    value: ran ? o.value : LATER,
    upstream: arrived || o.upstream === null ? o.upstream : LATER,
    parts: arrived ? o.parts : [],
  }));
  const found = { ...panel, outputs, paths: arrived ? panel.paths : undefined };
  return hidden ? bare(found) : found;
}

/** The details of a node without what the rule returns. */
const bare = (panel) => ({ ...panel, rule: panel.rule ?? panel.inputs.length > 0, inputs: [], variables: undefined });

const term = (word, value, extra = "") =>
  h(`div.term${extra}`, {}, h("span.small", {}, word), h("span.big", {}, value));

/** The details of a node: what it is, and its rule with the numbers. */
function nodeDetails(panel) {
  const head = h("p.title", {}, h("span", {}, panel.title), " ", h("span.kind", {}, panel.kind));
  const found = [head];
  for (const [name, value] of panel.facts) found.push(fact(name, value));
  for (const output of panel.outputs.slice(0, 4)) found.push(...outputRows(output, panel.rule ?? panel.inputs.length > 0, panel.paths));
  if (panel.ops) found.push(opsTable(panel.ops));
  panel.inputs.forEach((input) => found.push(product(panel, input)));
  if (panel.variables) found.push(variablesTable(panel.variables));
  if (panel.awaited) found.push(h("p.none", {}, `Its backward rule runs in step ${panel.awaited}.`));
  return found;
}

const fact = (name, value) =>
  h("p.fact", {}, h("span.small", {}, `${name} `), name === "your code" || name === "backward rule" ? h("code", {}, value) : value);

function outputRows(output, rule, paths) {
  const found = [
    h("p.fact", {}, h("span.small", {}, "value "), h("span.forwardtext", {}, `${output.name} = ${output.value}`),
      h("span.small", {}, ` ${output.is}`)),
  ];
  if (output.upstream === null) return found;
  const word = rule ? "upstream " : "gradient ";
  const parts = output.parts ?? [];
  const sum = parts.length > 1 ? `${sumOf(parts)} = ` : "";
  found.push(h("p.fact", {}, h("span.small", {}, word), h("span.backtext", {}, sum + output.upstream)));
  if (parts.length > 1 && !paths) {
    found.push(h("ul.parts", {}, ...parts.map(([from, g]) => h("li", {}, h("span.backtext", {}, g), ` ${from}`))));
  }
  return found;
}

/**
 * The equation of one input: upstream x local, summed over the outputs, = downstream.
 *
 * Signs are strings, numbers [what it is, the number]. Where the rule returned something else than
 * the sum, the sum is written out, and unequal to downstream.
 */
export function equation(panel, input) {
  const terms = input.products.length
    ? input.products.map((p) => [p.upstream, p.local])
    : [[panel.outputs.map((o) => o.upstream ?? "None").join(", "), "\u2026"]];
  const sum = terms.flatMap(([up, local], n) => [...(n ? ["+"] : []), ["upstream", up], "\u00d7", ["local", local]]);
  const other = input.other ? ["=", ["upstream \u00d7 local", input.other], "\u2260"] : ["="];
  return [...sum, ...other, ["downstream", input.downstream]];
}

/** The parts of an equation between which a line may break: before a sign other than that of a product. */
function summands(parts) {
  const found = [[]];
  for (const part of parts) {
    if (["+", "=", "\u2260"].includes(part)) found.push([]);
    found.at(-1).push(part);
  }
  return found;
}

/** upstream x local = downstream, for one input. */
function product(panel, input) {
  const title = h("p.subtitle", {}, `to ${input.name}`, h("span.small", {}, ` = ${input.value}, ${input.is}`));
  if (!input.flows) {
    return h("section.input", {}, title, h("p.none", {}, `\u2205 None: nothing flows back to ${input.name}.`));
  }
  const [first] = input.products;
  const body = first?.cells ? heatmap(first) : h("div.product", {}, ...summands(equation(panel, input)).map((parts) =>
    h("span.summand", {}, ...parts.map((part) => {
      if (typeof part === "string") return h(`span.sign${part === "\u2260" ? ".unequal" : ""}`, {}, part);
      return term(...part, part[0] === "local" ? "" : ".backtext");
    }))));
  return h("section.input", {}, title, body, input.why ? h("p.why", {}, input.why) : null);
}

function tint(cell, heat) {
  cell.style.setProperty("--cgviz-heat", `${Math.round(Math.abs(heat) * 42)}%`);
  if (heat < 0) cell.classList.add("cgviz-negative");
  return cell;
}

/** A small Jacobian as a heat map; upstream is before its rows as their weights. */
function heatmap(p) {
  const head = h("tr", {}, h("th", { scope: "col" }, "upstream"), h("td.sign", {}), h("td", {}),
    ...p.columns.map((c) => h("th", { scope: "col" }, c)));
  const body = p.cells.map((row, i) =>
    h("tr", {}, h("td.backtext", {}, p.weights[i]), h("td.sign", {}, "\u00d7"), h("th", { scope: "row" }, p.rows[i]),
      ...row.map((cell, j) => tint(h("td", {}, cell), p.heat[i][j]))));
  const foot = (words, numbers) => h("tr.sum", {}, h("th", { scope: "row", colspan: 3 }, ...words), ...numbers.map((x) => h("td.backtext", {}, x)));
  const feet = p.other
    ? [foot(["upstream \u00d7 local"], p.other), foot([h("span.unequal", {}, "\u2260"), " downstream"], p.sum)]
    : [foot(["downstream"], p.sum)];
  const caption = "local Jacobian: each row is weighted by its upstream, and the rows are added";
  return h("div.scroll", { tabindex: 0, role: "group", "aria-label": caption }, h("p.small", { "aria-hidden": "true" }, caption),
    h("table.heat", {}, h("thead", {}, head), h("tbody", {}, ...body), h("tfoot", {}, ...feet)));
}

function variablesTable(variables) {
  const body = variables.map(([name, gradient], i) =>
    h("tr", {}, h("td", {}, String(i)), h("th", { scope: "row" }, name), h("td.backtext", {}, gradient)));
  return h("table.plain", {}, h("caption", {}, "`variables`, in the order TensorFlow gives them to the rule"),
    h("thead", {}, h("tr", {}, ...["place", "variable", "gradient"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, ...body));
}

function opsTable(ops) {
  return h("table.plain", {}, h("caption", {}, "the ops folded here"),
    h("tbody", {}, ...ops.map(([name, type, is]) =>
      h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, type), h("td.small", {}, is)))));
}

/** The details of a link: the value one way, the gradient the other. */
function linkDetails({ display, texts, panels }, i, step, hidden, arrived) {
  const link = display.links[i];
  const { value, gradient, reason } = texts.links[i];
  const [from, to] = [panels[link.source], panels[link.target]]; // a target of the pass has no panel
  const title = to ? `${from.title} \u2192 ${to.title}` : `${from.title} \u2192 target`;
  const found = [h("p.title", {}, h("span", {}, title), " ", h("span.kind", {}, to ? "one use of a value" : "where the pass starts"))];
  const come = link.step <= step;
  found.push(fact("value", h("span.forwardtext", {}, display.nodes[link.source].step <= step ? value : LATER)));
  if (reason && come) found.push(h("p.none", {}, `${flat(reason)}: no gradient flows back here.`));
  else if (gradient || reason) found.push(fact("gradient back", h("span.backtext", {}, come ? (hidden ? "?" : gradient) : LATER)));
  if (to && !hidden && to.inputs[link.position]?.flows) found.push(product(to, to.inputs[link.position]));
  const parts = from.outputs.length === 1 ? from.outputs[0].parts ?? [] : [];
  if (parts.length > 1 && arrived) {
    found.push(h("p.none", {}, `One of ${parts.length} parts: together ${sumOf(parts)} = ${from.outputs[0].upstream}.`));
  }
  return found;
}

export const sumOf = (parts) => parts.map(([, given]) => given).join(" + ").replaceAll("+ \u2212", "\u2212 ");

// --- the table: the numbers of the backward pass once more, for who reads rather than looks ---

const COLUMNS = ["op", "input", "upstream", "local", "downstream"];

/** The table of a page, as far as it has come; made when it is opened. */
export function makeTable(on) {
  const head = h("tr", {}, ...["step", ...COLUMNS].map((name) => h("th", { scope: "col" }, name)));
  const body = h("tbody");
  const element = h("details.table", {}, h("summary", {}, "The same numbers as a table"),
    h("div.scroll", { tabindex: 0, role: "group", "aria-label": "Backward table" },
      h("table.plain", {}, h("caption", {}, "Backward pass, step by step, as far as it has come"), h("thead", {}, head), body)));
  let page = null;
  let last = 0;
  const line = (row) => h(`tr${row.step > last ? ".later" : ""}`, {}, h("td", {}, String(row.step)), h("th", { scope: "row" }, row.op),
    ...COLUMNS.slice(1).map((name) => h("td", {}, row[name])));
  const fill = () => {
    if (!element.open || body.children.length) return;
    body.replaceChildren(...rows(page).map(line));
  };
  on(element, "toggle", fill);
  return {
    element,
    /** Show a page up to its step `last_`. */
    show(page_, last_) {
      if (page === page_ && last === last_) return;
      [page, last] = [page_, last_];
      body.replaceChildren();
      fill();
    },
    forget: () => (page = null),
  };
}

/** The rows of the table: one per step and input, in the order the steps ran. */
export function rows(page) {
  const found = [];
  page.display.nodes.forEach((node, i) => {
    const panel = page.panels[i];
    if (!panel) return;
    for (const order of node.orders.slice(0, 1)) {
      for (const input of panel.inputs.length ? panel.inputs : [null]) {
        found.push({
          step: order,
          op: panel.title,
          input: input ? `${input.name} = ${input.value}` : "",
          upstream: panel.outputs.map((o) => o.upstream).join(", "),
          local: input ? input.products.map((p) => localText(p)).join(", ") : "",
          downstream: input ? (input.other ? "\u2260 " : "") + input.downstream : "",
        });
      }
    }
  });
  return found.sort((a, b) => a.step - b.step);
}

function localText(product) {
  if (!product.cells) return product.local;
  return `[${product.cells.map((row) => `[${row.join(", ")}]`).join(", ")}]`;
}
