// Pointer and keyboard on a picture.
import { pan, reveal } from "./camera.mjs";
import { describe } from "./aria.mjs";

/** Let a picture answer. */
export function listenTo(view, picture, side) {
  const { on } = view;
  const { svg } = picture;
  picture.items.forEach((item) => (item.side = side));
  on(svg, "click", (event) => {
    const item = itemOf(event);
    if (!item || picture.dragged) return;
    if (item.kind === "frame" || event.target.closest(".cgviz-handle")) view.turnOver(item.name);
    else view.select(side, `${item.kind} ${item.i}`);
  });
  on(svg, "dblclick", (event) => {
    const item = itemOf(event);
    if (item?.kind === "node" && item.name) view.turnOver(item.name);
  });
  on(svg, "pointerover", (event) => view.hover(side, itemOf(event)));
  on(svg, "pointerleave", () => view.hover(side, null));
  on(svg, "keydown", (event) => roam(view, picture, event));
  on(svg, "focusin", (event) => {
    const item = itemOf(event);
    if (!item) return;
    describe(view, picture, item);
    show(picture, item);
  });
  pan(picture, on);
}

const STEPS = {
  ArrowRight: "forward", ArrowDown: "forward", ArrowLeft: "back", ArrowUp: "back", Home: "first", End: "last", " ": "play", f: "present",
  "[": "earlier", "]": "later",
};

const PRESENTING = { " ": "forward", b: "blank", r: "first", "?": "help", Escape: "present" };
export const KEYS = [["Space, \u2192", "on"], ["\u2190", "back"], ["B", "numbers off and on"], ["R", "from the start"],
  ["?", "these keys"], ["F, Esc", "leave"]];

/** Step by the arrows, Home, End and Space, and through a training by [ and ], wherever the focus is; `run` has what the buttons do. */
export function stepByKeys(view, run) {
  view.on(view.root, "keydown", (event) => {
    if (event.altKey) return;
    if (event.key === "Escape" && view.pinned) return view.pin(null);
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const keys = event.ctrlKey || event.metaKey ? { z: "undo" } : { ...STEPS, ...(view.presenting ? PRESENTING : {}) };
    if (!(key in keys) || event.target.closest("input, select")) return; // they have their own use for these keys
    if (key === " " && event.target.closest("button, summary")) return;
    run[keys[key]]();
    event.preventDefault();
    event.stopPropagation();
  });
}

/** Tab goes from node to node, . and , to arrows too, Enter opens the side panel, o what is folded, + - 0 zoom. */
function roam(view, picture, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input")) return;
  const item = itemOf(event);
  const place = item ? picture.items.findIndex((each) => each.g === item.g) : 0;
  const moves = { ".": 1, ",": -1 };
  const slides = { ArrowRight: 0.01, ArrowUp: 0.01, ArrowLeft: -0.01, ArrowDown: -0.01, PageUp: 0.1, PageDown: -0.1 };
  if (item?.move && event.key in slides) item.move(slides[event.key]);
  else if (event.key in moves) focusItem(picture, place + moves[event.key]);
  else if (item?.name && (event.key === "o" || (item.kind === "frame" && event.key === "Enter"))) view.turnOver(item.name);
  else if (event.key === "Enter") item && view.select(item.side, `${item.kind} ${item.i}`);
  else if (event.key === "Escape" && !view.presenting) view.select(view.state.side, view.state.selected);
  else if (event.key === "+" || event.key === "=") view.zoom(1.25);
  else if (event.key === "-") view.zoom(0.8);
  else if (event.key === "0") view.showAll();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Put the keyboard on an item of a picture. */
export function focusItem(picture, place) {
  const item = picture.items[Math.min(Math.max(place, 0), picture.items.length - 1)];
  if (!item) return;
  item.g.focus({ preventScroll: true });
}

/** Bring an item into sight. */
function show(picture, item) {
  const { nodes, links, frames } = picture.page.display;
  if (item.kind === "frame") {
    const [left, top, width, height] = frames[item.i].title;
    reveal(picture, { x: left + width / 2, y: top + height / 2, width, height });
  } else reveal(picture, nodes[item.kind === "node" ? item.i : links[item.i].source]);
}

function itemOf(event) {
  return event.target.closest?.("[role=button], [role=slider]")?.cgvizItem;
}
