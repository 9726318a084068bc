// The code: the lines of the program. Line, row of the table, op and arrows light up together.
import { fill, h, makeFold, toggle } from "./dom.mjs";
import { mark } from "./picture.mjs";

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
