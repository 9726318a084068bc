// Mounting: as a widget, in a saved page, and embedded in another page.
import { press } from "./bar.mjs";
import { darkAround, h, toggle } from "./dom.mjs";
import { unpacked } from "./packed.mjs";
import { View } from "./view.mjs";

/** A model with the widget's interface for a page without a kernel. */
export function staticModel(values) {
  const [found, heard] = [{ ...values }, {}];
  return {
    cgvizStatic: true,
    get: (name) => found[name],
    set: (name, value) => (found[name] = value),
    on: (event, run) => (heard[event] = run),
    send: (message) => message.move && setTimeout(() => heard["msg:custom"](keptAnswer(found.document, message))),
    off() {}, save_changes() {},
  };
}

/** What Python would answer to a move of sliders, from what was computed at their positions. */
function keptAnswer({ sliders, kept }, { move, active, id }) {
  const at = move.map((value, k) => sliders[k].positions.indexOf(value));
  const { flow, points, error, ...numbers } = kept.answers[at];
  const known = { moved: id, settled: true, error };
  if (error) return known;
  const curves = kept.curves[`${active}|${at.filter((_, k) => k !== active)}`];
  return { ...known, curves, points: points[active] ?? points[0], pages: [{ ...numbers, ...kept.flows[flow] }] };
}

/** A view without a kernel, from its compressed state; dark where the page around it is. */
async function mount(packed, el, linked) {
  const { state, displays, pages: every } = await unpacked(packed);
  for (const page of every.flatMap(([, found]) => found)) page.displays = page.displays.map((i) => displays[i]);
  const [[, pages], ...more] = every;
  Object.assign(state.document, { pages, more, linked });
  const view = new View(staticModel(state), state.document, el);
  const theme = () => toggle(view.root, "dark", darkAround(el));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
  const changes = new MutationObserver(theme);
  for (const each of [document.documentElement, document.body]) changes.observe(each, { attributes: true });
  if (!linked) return;
  const jump = () => location.hash.startsWith("#step=") && view.go(Number(location.hash.slice(6)));
  addEventListener("hashchange", jump);
  addEventListener("keydown", (event) => event.target === document.body && press(view, event)); // nothing has the focus
  jump();
}

export function boot() {
  const box = document.getElementById("cgviz");
  if (globalThis.DecompressionStream) mount(document.getElementById("cgviz-state").textContent, box, true);
  else box.append(h("pre", {}, document.querySelector("noscript").textContent));
}

export default {
  async render({ model, el }) {
    const view = new View(model, await unpacked(model.get("document")), el);
    return () => view.close();
  },
  /** Mount a view in place of a picture, apart from the style of the page around it. */
  embed(box, sheet) {
    const root = box.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [sheet];
    const el = root.appendChild(h("div", { "data-cgviz-view": box.dataset.version }));
    return mount(box.querySelector("script").textContent, el);
  },
};
