// The side panel: what is chosen, and its rule with the numbers, upstream x local = downstream; the table; the code.
import { reveal } from "./camera.mjs";
import { built, fill, focus, h, makeFold, section, set, toggle } from "./dom.mjs";
import { isOpen, mark } from "./picture.mjs";
import { answered } from "./predict.mjs";
import { nodeAt } from "./time.mjs";

const [WHOLE, HIGHEST, SEVERAL] = [344, 520, 40]; // pixels of a panel in sight, of its calculations; nodes measured

/** The side panel of a view: about one node. It is rebuilt only when something else is to be shown. */
export function makePanel(view) {
  const element = h("div.panel", { role: "group", "aria-label": "Details of what is chosen", tabindex: 0 });
  const none = h("p.none", {}, "Step through with the arrows, or choose an op for its details.");
  let shown = [];

  function paint() {
    const { state, questions, cache, page } = view;
    const asked = questions.at(state.step);
    // The node that was chosen, that of a question, or the op of the moment; as the backward pass starts, the last op.
    const question = asked.find((q) => !q.done) ?? asked.at(-1);
    const i = state.selected ?? question?.node ?? nodeAt(page.display, Math.floor(view.stepOn(page)));
    const wanted = [i, page.panels[i], state.side, cache.which, state.step, ...asked.map((q) => q.done)];
    if (wanted.some((each, n) => each !== shown[n])) {
      const held = element.contains(view.focused) && view.focused;
      shown = null; // no path is followed until the focus is given back
      state.pinned = null;
      fill(element, ...(i < 0 ? [none] : details(i)));
      const same = ({ textContent }) => textContent === held.textContent;
      const found = () => [...element.querySelectorAll("button, [tabindex]")].find(same) ?? view.pictures[0].svg;
      if (held && held !== view.focused) focus(held.isConnected ? held : found());
      shown = wanted;
    }
    const buttons = element.querySelectorAll(".cgviz-path");
    for (const button of buttons) set(button, { "aria-pressed": button.cgvizPath === state.pinned });
  }

  /** Make it as high as what is told in the end needs: it is as high at every step. */
  function fit() {
    const probe = element.appendChild(h("div.probe"));
    const needs = view.pages.flatMap(({ panels }) => panels.slice(0, SEVERAL).map((panel, i) => {
      const asked = view.questions.all.filter((q) => q.node === i).map(answered);
      const first = [heading(panel), ...asked, ...calculations(panel, Infinity)];
      const high = (parts) => fill(probe, ...first, ...parts).scrollHeight;
      return Math.max(Math.min(high([]), HIGHEST), Math.min(high(others(panel, Infinity)), WHOLE));
    }));
    probe.remove();
    element.style.setProperty("--cgviz-tall", `${Math.max(...needs)}px`);
  }

  const heading = ({ title, kind }) => h("p.title", {}, h("span", {}, title), " ", h("span.kind", {}, kind));
  const calculations = ({ about, inputs }, told) => [...about, ...inputs].map((part) => built(part, told));
  const others = ({ more, paths, come }, told) =>
    [...more.map((part) => built(part, told)), paths && come <= told && pathList(paths)];

  /** The details of a node: what it is, and its rule with the numbers, as far as they are told. */
  function details(i) {
    const { questions, page, page: { display, panels }, cache } = view;
    const [panel, { group }] = [panels[i], display.nodes[i]];
    const told = questions.told(view.stepOn(page));
    const asked = questions.at(view.state.step).filter((q) => q.node === i);
    const open = isOpen(display, group);
    const turn = () => view.turnOver(group);
    request(panel);
    return [
      heading(panel),
      ...asked.map((q) => (q.done ? answered(q) : view.form(q).section)), // first, where a verdict is in sight
      ...calculations(panel, told), ...others(panel, told),
      group && h("p", {}, cache.canTurn(group)
        ? h("button", { type: "button", "aria-expanded": String(open), onclick: turn }, open ? "Close" : "Open")
        : "What is inside is not in this file: trace.view() in a notebook opens it."),
    ];
  }

  /** The paths of the chain rule to a node: each lights up while the pointer or the focus is on it, or once clicked. */
  function pathList(paths) {
    const { display: { nodes, links } } = view.page;
    const off = () => view.overlay();
    const rows = paths.map((path) => {
      const on = () => {
        if (!shown) return;
        view.overlay(path);
        for (const i of path.links) reveal(view.picture, nodes[links[i].source]);
      };
      const onclick = ({ detail: clicked }) => {
        view.set({ pinned: view.state.pinned === path ? null : path });
        if (clicked) focus(view.picture.svg); // not by keyboard: Space plays, as after a click on the picture
      };
      const listeners = { onpointerenter: on, onfocus: on, onpointerleave: off, onblur: off, onclick };
      const button = h("button.path", { type: "button", ...listeners }, ...path.words.map((part) => built(part)));
      return h("li", {}, Object.assign(button, { cgvizPath: path }));
    });
    return section("the chain rule, path by path", h("ul.parts", {}, ...rows));
  }

  /** Ask Python for the local Jacobians of a large page, which are made on demand. */
  function request(panel) {
    const { model, page, cache: { key, which, names }, state: { side }, explore } = view;
    if (panel.asked !== false || page.waits || explore?.busy()) return;
    page.waits = true;
    model.send({ ask: "panels", which, toggled: names, side, key });
  }
  return { element, paint, fit };
}

// --- below it: the numbers of the backward pass once more, for those who read rather than look; and the program ---
/** The table of a view, as far as it is told; rows that are still to come already take up their space. */
export function makeTable(view) {
  const box = h("div.scroll", { tabindex: 0, role: "group", "aria-label": "Backward table" });
  return makeFold("table", "The same numbers as a table", box, () => view.clock.steps, () => {
    const { display, panels } = view.pages[0];
    const told = view.questions.told(view.state.step);
    const order = (i) => display.nodes[i].orders[0];
    const nodes = [...panels.keys()].filter(order).sort((a, b) => order(a) - order(b));
    const row = (i, cells) => h(`tr${order(i) > told ? ".later" : ""}`, { "data-nodes": i },
      h("th", { scope: "row" }, order(i)), ...[panels[i].title, ...cells].map((cell) => h("td", {}, cell)));
    const columns = ["step", "op", "input", "upstream", "local", "downstream"];
    const head = columns.map((name) => h("th", { scope: "col" }, name));
    const body = nodes.flatMap((i) => panels[i].rows.map((cells) => row(i, cells)));
    fill(box, h("table.plain", {}, h("caption", {}, "Backward pass, step by step, as far as it has come"),
      h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...body)));
  });
}

/** The lines of the program whose ops are shown, as Python wrote them. A click on one chooses the last node it made. */
export function makeCode(view) {
  const choose = ({ dataset }) => view.set({ side: 0, selected: Number(dataset.nodes.split(" ").at(-1)) });
  const list = h("div", { onclick: ({ target }) => target.closest("button") && choose(target.closest("button")) });
  const code = () => view.pages[0].code;
  let shown = null;
  const paint = () => shown === code() || fill(list, built(shown = code()));
  return makeFold("source", "The code, line by line", list, code, paint);
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
