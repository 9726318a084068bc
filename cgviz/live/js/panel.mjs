// The side panel: what is chosen, and its rule with the numbers, upstream x local = downstream; and the table.
import { ruleCode } from "./code.mjs";
import { fill, h, makeFold, set, toggle } from "./dom.mjs";
import { isOpen } from "./picture.mjs";
import { answered } from "./predict.mjs";
import { nodeAt } from "./time.mjs";

const LATER = "not yet";
const CODE = ["your code", "backward rule"]; // facts that are code
const VARIABLES = "`variables`, in the order TensorFlow gives them to the rule";
const MOST_OUTPUTS = 4; // of an op, in the panel: more would fill it

/** The side panel of a view: about one node. It is made anew only where something else is to be shown. */
export function makePanel(view) {
  const element = h("div.panel", { role: "group", "aria-label": "Details of what is chosen", tabindex: 0 });
  let shown = [];

  function paint() {
    const { state, questions, cache, page } = view;
    const asked = questions.at(state.step);
    // What was chosen, what is asked, or the op of the moment.
    const i = state.selected ?? (asked.find((q) => !q.done) ?? asked.at(-1))?.node ?? nodeAt(page.display, view.stepOn(page));
    const wanted = [i, page.panels[i], state.side, cache.which, state.step, ...asked.map((q) => q.done)];
    if (wanted.some((each, n) => each !== shown[n])) {
      shown = wanted;
      state.pinned = null;
      fill(element, ...(i < 0 ? [none("Step through with the arrows, or choose an op for its details.")] : details(i)));
    }
    for (const button of element.querySelectorAll(".cgviz-path")) set(button, { "aria-pressed": button.cgvizPath === state.pinned });
  }

  /** The details of a node: what it is, and its rule with the numbers, as far as they have come. */
  function details(i) {
    const { questions, page, page: { display, panels }, state, cache } = view;
    const [panel, now, { group, orders, step }] = [panels[i], view.stepOn(page), display.nodes[i]];
    const arrived = !questions.hidden.nodes.has(i) && display.links.every((link) => link.source !== i || link.step <= now);
    const asked = questions.at(state.step).filter((q) => q.node === i);
    const told = !asked.length && !questions.hides(orders, now);
    const paths = arrived && panel.paths;
    const open = isOpen(display, group);
    request(panel);
    return [
      h("p.title", {}, h("span", {}, panel.title), " ", h("span.kind", {}, panel.kind)),
      ...panel.facts.map(([name, value]) => fact(name, CODE.includes(name) ? h("code", {}, value) : value)),
      ...panel.outputs.slice(0, MOST_OUTPUTS).flatMap((output) => outputRows(output, step <= now, arrived, panel.inputs.length, paths)),
      panel.ops && grid("the ops folded here", [], panel.ops),
      ...(told ? panel.inputs.map((input) => product(panel, input)) : []),
      panel.code?.length > 0 && ruleCode(panel.code, told && arrived),
      told && panel.variables && grid(VARIABLES, ["variable", "gradient"], panel.variables),
      orders[0] > now && !panel.ops && none(`Its backward rule runs in step ${orders[0]}.`),
      ...asked.map((q) => (q.done ? answered(q) : view.form(q).section)),
      paths && pathList(paths),
      group && cache.canTurn(group) && h("p", {},
        h("button", { type: "button", "aria-expanded": String(open), onclick: () => view.turnOver(group) }, open ? "Close" : "Open")),
    ];
  }

  /** The paths of the chain rule to a node: each lights up while the pointer or the focus is on it, or once it was clicked. */
  function pathList(paths) {
    const { display, panels } = view.page;
    const off = () => view.overlay();
    return h("section.input", {}, h("p.subtitle", {}, "the chain rule, path by path"), h("ul.parts", {}, ...paths.map((path) => {
      const through = path.links.slice(1).map((i) => panels[display.links[i].target].title);
      const on = () => view.overlay(path);
      const onclick = () => view.set({ pinned: view.state.pinned === path ? null : path });
      const button = h("button.path", { type: "button", onpointerenter: on, onfocus: on, onpointerleave: off, onblur: off, onclick },
        h("span.backtext", {}, [path.products[0], ...path.factors].join(" \u00b7 "), ` = ${path.products.at(-1)}`),
        h("span.small", {}, ` through ${through.join(", ")}`));
      button.cgvizPath = path;
      return h("li", {}, button);
    })));
  }

  /** Ask Python for the local Jacobians of a large page, which are made on demand. */
  function request(panel) {
    const { model, page, cache: { key, which, names }, state: { side }, explore } = view;
    if (panel.asked !== false || page.waits || explore?.busy()) return;
    page.waits = true;
    model.send({ ask: "panels", which, toggled: names, side, key });
  }
  return { element, paint };
}

const none = (words) => h("p.none", {}, words);
const fact = (name, ...value) => h("p.fact", {}, h("span.small", {}, `${name} `), ...value);

/** A table of rows; the first cell of each row names it. */
function grid(caption, columns, rows) {
  return h("table.plain", {}, h("caption", {}, caption),
    columns.length > 0 && h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map(([name, ...cells]) =>
      h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))))));
}

/** An output: its value once it `ran`; what came back to it, and from where, once that `arrived`. */
function outputRows({ name, value, is, upstream, parts = [] }, ran, arrived, rule, paths) {
  const found = [fact("value", h("span.forwardtext", {}, `${name} = ${ran ? value : LATER}`), h("span.small", {}, ` ${is}`))];
  if (upstream === null) return found;
  const several = arrived && parts.length > 1;
  const come = several ? `${sumOf(parts)} = ${upstream}` : upstream;
  found.push(fact(rule ? "upstream" : "gradient", h("span.backtext", {}, arrived ? come : LATER)));
  if (several && !paths) found.push(h("ul.parts", {}, ...parts.map(([from, g]) => h("li", {}, h("span.backtext", {}, g), ` ${from}`))));
  return found;
}

/**
 * The equation of one input: upstream x local, summed over the outputs, = downstream.
 *
 * In summands, between which a line may break. Signs are strings, numbers [what it is, the number]. Where
 * the rule returned something else than the sum, the sum is written out, and unequal to downstream.
 */
export function equation(panel, input) {
  const terms = input.products.length
    ? input.products.map((p) => [p.upstream, p.local])
    : [[panel.outputs.map((o) => o.upstream ?? "None").join(", "), "\u2026"]];
  const sum = terms.map(([up, local], n) => [...(n ? ["+"] : []), ["upstream", up], "\u00d7", ["local", local]]);
  const other = input.other ? [["=", ["upstream \u00d7 local", input.other]]] : [];
  return [...sum, ...other, [input.other ? "\u2260" : "=", ["downstream", input.downstream]]];
}

/** upstream x local = downstream, for one input. */
function product(panel, input) {
  const title = h("p.subtitle", {}, `to ${input.name}`, h("span.small", {}, ` = ${input.value}, ${input.is}`));
  if (!input.flows) return h("section.input", {}, title, none(`\u2205 None: nothing flows back to ${input.name}.`));
  const written = (part) => {
    if (typeof part === "string") return h(`span.sign${part === "\u2260" ? ".unequal" : ""}`, {}, part);
    return h(`div.term${part[0] === "local" ? "" : ".backtext"}`, {}, h("span.small", {}, part[0]), h("span.big", {}, part[1]));
  };
  const [first] = input.products;
  const body = first?.cells ? heatmap(first)
    : h("div.product", {}, ...equation(panel, input).map((parts) => h("span.summand", {}, ...parts.map(written))));
  return h("section.input", {}, title, body, input.why && h("p.why", {}, input.why));
}

/** A small Jacobian as a heat map; upstream is before its rows as their weights. */
function heatmap({ rows: names, columns, weights, cells, heat, other, sum }) {
  const column = (name) => h("th", { scope: "col" }, name);
  const tinted = (cell, tone) => h(`td${tone < 0 ? ".negative" : ""}`, { "--cgviz-heat": `${Math.round(Math.abs(tone) * 42)}%` }, cell);
  const body = cells.map((row, i) => h("tr", {}, h("td.backtext", {}, weights[i]), h("td.sign", {}, "\u00d7"),
    h("th", { scope: "row" }, names[i]), ...row.map((cell, j) => tinted(cell, heat[i][j]))));
  const foot = (numbers, ...words) =>
    h("tr.sum", {}, h("th", { scope: "row", colspan: 3 }, ...words), ...numbers.map((x) => h("td.backtext", {}, x)));
  const unequal = () => [foot(other, "upstream \u00d7 local"), foot(sum, h("span.unequal", {}, "\u2260"), " downstream")];
  const feet = other ? unequal() : [foot(sum, "downstream")];
  const caption = "local Jacobian: each row is weighted by its upstream, and the rows are added";
  return h("div.scroll", { tabindex: 0, role: "group", "aria-label": caption }, h("p.small", { "aria-hidden": "true" }, caption),
    h("table.heat", {}, h("thead", {}, h("tr", {}, column("upstream"), h("td.sign", {}), h("td", {}), ...columns.map(column))),
      h("tbody", {}, ...body), h("tfoot", {}, ...feet)));
}

export const sumOf = (parts) => parts.map(([, given]) => given).join(" + ").replaceAll("+ \u2212", "\u2212 ");

// --- the table: the numbers of the backward pass once more, for who reads rather than looks ---

const COLUMNS = ["step", "op", "input", "upstream", "local", "downstream"];

/** The table of a view, as far as it has come; the rows that are still to come take their space. */
export function makeTable(view) {
  const box = h("div.scroll", { tabindex: 0, role: "group", "aria-label": "Backward table" });
  return makeFold("table", "The same numbers as a table", box, () => {
    const found = rows(view.pages[0]);
    const last = Math.min(view.state.step, ...view.questions.open.map((q) => q.step - 1));
    fill(box, grid("Backward pass, step by step, as far as it has come", COLUMNS, found.map((row) => COLUMNS.map((name) => row[name]))));
    box.querySelectorAll("tbody tr").forEach((row, n) => {
      row.dataset.nodes = found[n].i;
      toggle(row, "later", found[n].step > last);
    });
  });
}

/** The rows of the table: one per step and input, in the order the steps ran. */
export function rows({ display, panels }) {
  const found = display.nodes.flatMap(({ orders: [step] }, i) => {
    if (!step) return [];
    const { title: op, inputs, outputs } = panels[i];
    const upstream = outputs.map((o) => o.upstream).join(", ");
    const own = { step, i, op, input: "", upstream, local: "", downstream: "" };
    const row = ({ name, value, products, other, downstream }) => ({
      ...own, input: `${name} = ${value}`, local: products.map(localText).join(", "), downstream: (other ? "\u2260 " : "") + downstream,
    });
    return inputs.length ? inputs.map(row) : [own];
  });
  return found.sort((a, b) => a.step - b.step);
}

const localText = ({ cells, local }) => (cells ? `[${cells.map((row) => `[${row.join(", ")}]`).join(", ")}]` : local);
