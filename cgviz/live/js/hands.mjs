// Hands: what pointer and keys do on a picture.
import { pan, reveal } from "./camera.mjs";
import { titleOf } from "./picture.mjs";
import { describe } from "./voice.mjs";

const ENTER = new Set(["Enter", " "]);

/** Let a picture answer. */
export function handle(view, ink, side) {
  const { on } = view;
  const { svg } = ink;
  ink.items.forEach((item) => (item.side = side));
  on(svg, "click", (event) => {
    const item = itemOf(event);
    if (!item || ink.dragged) return;
    if (item.kind === "frame" || event.target.closest(".cgviz-handle")) view.turnOver(item.name);
    else view.select(side, `${item.kind} ${item.i}`);
  });
  on(svg, "dblclick", (event) => {
    const item = itemOf(event);
    if (item?.kind === "node" && item.name) view.turnOver(item.name);
  });
  on(svg, "pointerover", (event) => view.hover(side, itemOf(event)));
  on(svg, "pointerleave", () => view.hover(side, null));
  on(svg, "keydown", (event) => roam(view, ink, event));
  on(svg, "focusin", (event) => {
    const item = itemOf(event);
    if (item) describe(view, ink, item);
  });
  pan(ink, on);
}

/** Arrows go from item to item, Enter opens its card, o opens what is folded, + - 0 zoom. */
function roam(view, ink, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const item = itemOf(event);
  const place = item ? ink.items.findIndex((each) => each.g === item.g) : 0;
  const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -place, End: ink.items.length - 1 - place };
  if (event.key in moves) focusItem(ink, place + moves[event.key]);
  else if (item?.name && (event.key === "o" || (item.kind === "frame" && ENTER.has(event.key)))) view.turnOver(item.name);
  else if (ENTER.has(event.key)) item && view.select(item.side, `${item.kind} ${item.i}`);
  else if (event.key === "Escape") view.select(view.state.side, view.state.selected);
  else if (event.key === "+" || event.key === "=") view.zoom(1.25);
  else if (event.key === "-") view.zoom(0.8);
  else if (event.key === "0") view.showAll();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Put the keyboard on an item of a picture, and the item into sight. */
export function focusItem(ink, place) {
  const item = ink.items[Math.min(Math.max(place, 0), ink.items.length - 1)];
  if (!item) return;
  for (const each of ink.items) each.g.setAttribute("tabindex", each === item ? 0 : -1);
  item.g.focus({ preventScroll: true });
  const { nodes, links, frames } = ink.page.lines;
  if (item.kind === "frame") reveal(ink, titleOf(frames[item.i]));
  else reveal(ink, nodes[item.kind === "node" ? item.i : links[item.i].from]);
}

function itemOf(event) {
  return event.target.closest?.("[role=button]")?.cgvizItem;
}
