// The code: the backward rule of a custom op, and the lines of the learner's program. Line, row of the table, op and arrows light up together.
import { h, toggle } from "./dom.mjs";

const RETURNED = "returned"; // what Python writes in place of a name

/** The backward rule of a custom op, with what its names were in this step once that is `told`. */
export function ruleCode(lines, told) {
  const noted = ([name, number]) => (name === RETURNED ? `returns ${number}` : `${name} = ${number}`);
  return h("section.input", {}, h("p.subtitle", {}, told ? "the backward rule, with the numbers of this step" : "the backward rule"),
    h("ol.code", {}, ...lines.map(([text, names]) => h("li", {}, h("code", {}, text),
      told && names.length ? h("p.noted", { "--cgviz-indent": `${text.search(/\S/)}ch` }, names.map(noted).join("\u2003")) : null))));
}

/** The lines of the program whose ops are shown. */
export function makeCode(view) {
  const list = h("ol.code");
  const element = h("details.source", { ontoggle: () => paint() }, h("summary", {}, "The code, line by line"), list);
  let shown = null;
  const paint = () => {
    const { panels } = view.pages[0];
    if (!element.open || shown === panels) return;
    shown = panels;
    const lines = linesOf(panels);
    list.replaceChildren(...lines.map(([text, nodes]) => h("li", {},
      h("button.line", { type: "button", "data-nodes": nodes.join(" "), onclick: () => view.set({ side: 0, selected: nodes.at(-1) }) }, h("code", {}, text)))));
  };
  return { element, paint };
}

/** The lines in their order, each with the nodes that it made. */
export function linesOf(panels) {
  const found = new Map();
  panels.forEach(({ facts }, i) => {
    const [, text] = facts.find(([name]) => name === "your code") ?? [];
    if (text) found.set(text, [...(found.get(text) ?? []), i]);
  });
  return [...found].sort(([a], [b]) => parseInt(a.slice(5), 10) - parseInt(b.slice(5), 10));
}

/** Light up what belongs to the nodes that the pointer or the focus is on. */
export function together(view, { target }) {
  const item = target.closest(".cgviz-node, .cgviz-link")?.cgvizItem;
  const words = item ? String(item.i) : (target.closest("[data-nodes]")?.dataset.nodes ?? "");
  const side = item?.side ?? 0;
  if (view.together === `${side} ${words}`) return;
  view.together = `${side} ${words}`;
  const nodes = words ? words.split(" ").map(Number) : [];
  view.pictures.forEach(({ groups, page }, n) => {
    const own = n === side ? nodes : [];
    page.display.nodes.forEach((_, i) => toggle(groups.get(`node ${i}`), "alike", own.includes(i)));
    page.display.links.forEach((link, i) => toggle(groups.get(`link ${i}`), "alike", own.includes(link.target)));
  });
  for (const element of view.root.querySelectorAll("[data-nodes]")) {
    toggle(element, "alike", side === 0 && element.dataset.nodes.split(" ").some((i) => nodes.includes(Number(i))));
  }
}
