// Pointer and keyboard on a picture.
import { pan, reveal } from "./camera.mjs";
import { describe } from "./aria.mjs";

const ENTER = new Set(["Enter", " "]);

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
    if (item) describe(view, picture, item);
  });
  pan(picture, on);
}

/** Arrows go from item to item, Enter opens its side panel, o opens what is folded, + - 0 zoom. */
function roam(view, picture, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const item = itemOf(event);
  const place = item ? picture.items.findIndex((each) => each.g === item.g) : 0;
  const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -place, End: picture.items.length - 1 - place };
  if (event.key in moves) focusItem(picture, place + moves[event.key]);
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
export function focusItem(picture, place) {
  const item = picture.items[Math.min(Math.max(place, 0), picture.items.length - 1)];
  if (!item) return;
  for (const each of picture.items) each.g.setAttribute("tabindex", each === item ? 0 : -1);
  item.g.focus({ preventScroll: true });
  const { nodes, links, frames } = picture.page.display;
  if (item.kind === "frame") {
    const [left, top, width, height] = frames[item.i].title;
    reveal(picture, { x: left + width / 2, y: top + height / 2, width, height });
  } else reveal(picture, nodes[item.kind === "node" ? item.i : links[item.i].source]);
}

function itemOf(event) {
  return event.target.closest?.("[role=button]")?.cgvizItem;
}
