// Mounting: as a widget, and in a saved page.
import { h } from "./dom.mjs";
import { View } from "./view.mjs";

/** A model with the widget's interface for a page without a kernel. */
export function staticModel(values) {
  const found = { ...values };
  return {
    cgvizStatic: true,
    get: (name) => found[name],
    set: (name, value) => (found[name] = value),
    on() {},
    off() {},
    send() {},
    save_changes() {},
  };
}

/** JSON that was compressed, from its base64. */
export async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** The pages of a saved file by their names; what many of them share was kept once. */
export function repeated({ parts, pages }) {
  const all = (places) => places.map((i) => parts[i]);
  const whole = (each) => ({
    ...each,
    panels: all(each.panels),
    texts: Object.fromEntries(Object.entries(each.texts).map(([name, places]) => [name, all(places)])),
  });
  return pages.map(([key, found]) => [key, found.map(whole)]);
}

/** In a saved page: the state is in the page, compressed. */
export async function boot() {
  // Before anything else, so that no dark page begins white.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (document.body.dataset.jpThemeLight = String(!dark.matches));
  theme();
  dark.addEventListener("change", theme);
  const box = document.getElementById("cgviz");
  if (!globalThis.DecompressionStream) {
    box.append(h("pre", {}, document.querySelector("noscript").textContent));
    return;
  }
  const { state, ...rest } = await unpacked(document.getElementById("cgviz-state").textContent);
  const [[, pages], ...more] = repeated(rest);
  Object.assign(state.document, { pages, more });
  new View(staticModel(state), box);
}

export default {
  render({ model, el }) {
    const view = new View(model, el);
    return () => view.close();
  },
};
