// Wiring: the model, the bar and the sliders move the view.
import { moments, next, nodeAt, previous } from "./time.mjs";

/** Connect a view with all that moves it. */
export function wire(view) {
  const { on, state } = view;
  listen(view);
  view.bar.wire(on, buttons(view));
  view.explore?.wire(on, view.model, {
    open: () => (state.selected.startsWith("node") ? Number(state.selected.slice(5)) : nodeAt(view.clock, state.step)),
    numbers: (message) => view.numbers(message),
  });
  // JupyterLab's keys (Enter, b, dd) are for the notebook. It looks at the element with the focus
  // before it looks for this attribute further up, so each such element needs its own.
  on(view.root, "focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
}

/** What Python says, and what other widgets that are linked with this one set. */
function listen(view) {
  const { model, sync, state } = view;
  sync.on("msg:custom", (message) => view.receive(message));
  sync.on("change:step", () => {
    const step = model.get("step");
    if (step !== state.step && !sync.pending) view.moveTo(step);
  });
  sync.on("change:which", () => {
    const which = model.get("which");
    if (which !== view.shelf.which) view.turn(which);
  });
  sync.on("change:selected", () => {
    const key = model.get("selected");
    if (key === view.selectedKey) return;
    const i = view.clock.nodes.findIndex((node) => node.key && node.key === key);
    Object.assign(state, { selected: i >= 0 ? `node ${i}` : "", side: 0 });
    view.paint();
  });
}

/** What the bar's buttons do, by their names. */
function buttons(view) {
  const { state } = view;
  return {
    first: () => view.go(moments(view.clock)[0]),
    back: () => view.go(previous(view.clock, state.step)),
    play: () => view.play(!state.playing),
    forward: () => view.go(next(view.clock, state.step)),
    last: () => view.go(moments(view.clock).at(-1)),
    seek: (place) => view.go(moments(view.clock)[place]),
    speed: (value) => (state.speed = value),
    which: (value) => view.turn(value),
    colour: () => {
      state.colour = !state.colour;
      view.paint();
    },
    zoomIn: () => view.zoom(1.25),
    zoomOut: () => view.zoom(0.8),
    fit: () => view.showAll(),
    wide: () => {
      state.wide = !state.wide;
      view.arrange();
      view.inks.forEach((ink) => view.fit(ink));
      view.paint();
    },
    fold: () => {
      view.shelf.reset();
      view.want();
    },
  };
}
