// The code: the backward rule of a custom op, and the lines of the program. Line, row of the table, op and arrows light up together.
import { fill, h, makeFold, toggle } from "./dom.mjs";
import { mark } from "./picture.mjs";

const RETURNED = "returned"; // what Python writes in place of a name

/** The backward rule of a custom op, with what its names were in this step once that is `told`. */
export function ruleCode(lines, told) {
  const noted = ([name, number]) => (name === RETURNED ? `returns ${number}` : `${name} = ${number}`);
  return h("section.input", {}, h("p.subtitle", {}, told ? "the backward rule, with the numbers of this step" : "the backward rule"),
    h("ol.code", {}, ...lines.map(([text, names]) => h("li", {}, h("code", {}, text),
      told && names.length > 0 && h("p.noted", { "--cgviz-indent": `${text.search(/\S/)}ch` }, names.map(noted).join("\u2003"))))));
}

/** The lines of the program whose ops are shown. */
export function makeCode(view) {
  const list = h("ol.code");
  let shown = null;
  return makeFold("source", "The code, line by line", list, () => {
    const { lines } = view.pages[0];
    if (shown === lines) return;
    shown = lines;
    fill(list, ...lines.map(([text, nodes]) => {
      const onclick = () => view.set({ side: 0, selected: nodes.at(-1) });
      return h("li", {}, h("button.line", { type: "button", "data-nodes": nodes.join(" "), onclick }, h("code", {}, text)));
    }));
  });
}

/** Light up what belongs to the nodes that the pointer or the focus is on. */
export function together(view, { target }) {
  const item = target.closest(".cgviz-node, .cgviz-link")?.cgvizItem;
  const [side, words] = item ? [item.side, String(item.i)] : [0, target.closest("[data-nodes]")?.dataset.nodes ?? ""];
  if (view.together === `${side} ${words}`) return;
  view.together = `${side} ${words}`;
  const nodes = words.split(" ");
  view.pictures.forEach((picture, n) => {
    const links = picture.page.display.links.map(({ target }, i) => nodes.includes(String(target)) && `link ${i}`);
    mark(picture, "alike", n === side ? [...nodes.map((i) => `node ${i}`), ...links] : []);
  });
  for (const element of view.root.querySelectorAll("[data-nodes]")) {
    toggle(element, "alike", side === 0 && element.dataset.nodes.split(" ").some((i) => nodes.includes(i)));
  }
}
