// The loader of each view and each embedded picture: a page needs the module and the stylesheet once.
import { unpacked } from "./packed.mjs";

// For a row (HBox) of ipywidgets, in which a view would otherwise have no width.
const ROW = ".widget-hbox > :has(.cgviz-view) { flex: 1 1 480px; min-width: min(480px, 100%); }";
// JupyterLab lets outputs scroll, so that the sentence would not stick to the border of the window.
const STUCK = ".jp-Cell:not(.jp-mod-outputsScrolled) [class*=jp-OutputArea]:has(.cgviz-view) { overflow: visible; }";

/** The module of this version and its stylesheet; `find` gets the texts if the page does not have them yet. */
export function loaded(version, find) {
  const kept = (globalThis.cgvizLoaded ??= new Map());
  if (!kept.has(version)) {
    const found = find().then(async ({ module, stylesheet }) => {
      // Scoped to the views of its version: kernels with two versions may share a page.
      const own = globalThis.CSSScopeRule ? `@scope ([data-cgviz-view="${version}"]) {${stylesheet}}` : stylesheet;
      const sheet = await new CSSStyleSheet().replace(own + ROW + STUCK);
      const { default: parts } = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
      return { ...parts, sheet };
    });
    kept.set(version, found);
    found.catch(() => kept.delete(version)); // the next view tries again
  }
  return kept.get(version);
}

/** The texts, from the widget that the views of a kernel share, or else from the kernel itself. */
async function fromKernel(model) {
  const shared = model.widget_manager.get_model(model.get("shared").slice("IPY_MODEL_".length));
  const late = new Promise((_, fail) => setTimeout(fail, 2000));
  const found = await Promise.race([shared, late]).catch(() => null);
  if (found) return { module: found.get("module"), stylesheet: found.get("stylesheet") };
  return new Promise((done) => {
    model.on("msg:custom", (message) => message.module && done(message));
    model.send({ ask: "module" });
  });
}

export async function showWidget({ model, el }, version) {
  const { render, sheet } = await loaded(version, () => fromKernel(model));
  const { adoptedStyleSheets } = el.getRootNode() instanceof ShadowRoot ? el.getRootNode() : document;
  if (!adoptedStyleSheets.includes(sheet)) adoptedStyleSheets.push(sheet);
  el.dataset.cgvizView = version;
  return render({ model, el });
}

/** Show the embedded pictures of this page that are not shown yet. */
export function showEmbedded() {
  for (const box of document.querySelectorAll(".cgviz-embed:not([data-shown])")) {
    const { version } = box.dataset;
    box.dataset.shown = "";
    const find = () => unpacked(document.querySelector(`script[data-cgviz="${version}"]`).textContent);
    loaded(version, find).then(({ embed, sheet }) => embed(box, sheet));
  }
}
