// The camera: how large a picture is shown, and which part of it.
//
// A picture's `zoom` is { k, x, y }: a point p of it is seen at k p + (x, y).
import { set } from "./dom.mjs";

const [LAST_ROW, LABEL] = [37, 11.5]; // pixels of a screen of 1920 that can be read from the last row; the size of a label
const [LEAST, LARGE] = [11 / LABEL, 1.5]; // scales at which labels are of 11 pixels, which can be read; and are large
const TALLEST = 620; // pixels: a picture that is higher is panned, so that the bar stays in sight
const BELOW = 64; // under a picture that runs right: two equations, one below the other
const EDGE = 24; // pixels from a border at which a node counts as seen
const STILL = 4; // pixels that a pointer may move in a click
const BURST = 500; // milliseconds: turns of the wheel that follow each other faster are one

const BESIDE = 20; // pixels on each side of a picture, as in view.css: half of a chip at its border

/** The width of a stage, with its borders, in which a picture can be read; and that of the picture in a stage. */
export const readable = ({ width }) => width * LEAST + 2 * BESIDE + 2;
export const spaceIn = (stage) => Math.max(stage.clientWidth - 2 * BESIDE, 200);

/** Show a picture in a space of this width, so large that it can be read; what does not fit is panned. */
export function fit(picture, space) {
  const height = heightOf(picture);
  const k = Math.max(Math.min(space / picture.page.display.width, TALLEST / height, LARGE), LEAST);
  place(picture, space, Math.min(height * k, TALLEST), k);
}

/** Fill a screen, in letters that the last row can read; what does not fit is panned. The sentence is below. */
export function fitScreen(picture, width, height) {
  place(picture, width, height * 0.82, ((LAST_ROW / LABEL) * width) / 1920);
}

/** All of a picture in sight, however small. */
export function showWhole(picture) {
  const { size, page: { display: { width } } } = picture;
  centre(picture, Math.min(size.width / width, size.height / heightOf(picture), 2 * LARGE));
}

/** The height of a picture with the space for the equations of its op. */
function heightOf({ page: { display: { direction, height } } }) {
  return height + (direction === "right" ? BELOW : 0);
}

function place(picture, width, height, k) {
  picture.size = { width, height };
  set(picture.svg, { width: Math.round(width), height: Math.round(height) });
  picture.fitted = true;
  centre(picture, k);
}

/** At a scale, in the middle; of what is larger than its space the beginning. */
function centre(picture, k) {
  const { size, page: { display: { width } } } = picture;
  look(picture, { k, x: Math.max((size.width - width * k) / 2, 0), y: Math.max((size.height - heightOf(picture) * k) / 2, 0) });
}

/** Nearer or farther; the point `at` stays where it is. */
export function zoom(picture, factor, at = [picture.size.width / 2, picture.size.height / 2]) {
  const { k, x, y } = picture.zoom;
  const to = Math.min(Math.max(k * factor, 0.1), 6);
  picture.fitted = false;
  look(picture, { k: to, x: at[0] - ((at[0] - x) * to) / k, y: at[1] - ((at[1] - y) * to) / k });
}

/** What lets the pointer drag a picture, or a slider in it, and the wheel with Ctrl zoom it; `before` is called before it moves. */
export function moving(picture, before) {
  let from = null;
  let turned = -Infinity;
  return {
    onpointerdown(event) {
      if (event.button) return;
      from = { at: picture.zoom, x: event.clientX, y: event.clientY, slide: event.target.closest("[role=slider]")?.cgvizItem.grab() };
      picture.dragged = false;
    },
    onpointermove(event) {
      if (!from) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      if (!picture.dragged && Math.hypot(dx, dy) < STILL) return;
      if (!picture.dragged) picture.svg.setPointerCapture(event.pointerId);
      if (!picture.dragged && !from.slide) before();
      picture.dragged = true;
      if (from.slide) return from.slide(dx);
      picture.fitted = false;
      look(picture, { ...picture.zoom, x: from.at.x + dx, y: from.at.y + dy });
    },
    onpointerup: () => (from = null),
    onpointercancel: () => (from = null),
    onwheel(event) {
      if (!event.ctrlKey && !event.metaKey) return; // plain scrolling is the page's
      event.preventDefault();
      if (event.timeStamp - turned > BURST) before();
      turned = event.timeStamp;
      const box = picture.svg.getBoundingClientRect();
      zoom(picture, Math.exp(-event.deltaY * 0.002), [event.clientX - box.x, event.clientY - box.y]);
    },
  };
}

/** Bring a box, such as a node, into sight if it is not. */
export function reveal(picture, box) {
  if (!box || !picture.size) return;
  const { size, zoom: { k, x, y }, page: { display } } = picture;
  const [wide, high] = [display.width * k, heightOf(picture) * k];
  const within = (at, length, space) => at - length / 2 >= EDGE && at + length / 2 <= space - EDGE;
  const inside = within(box.x * k + x, box.width * k, size.width) && within(box.y * k + y, box.height * k, size.height);
  if (inside || (wide <= size.width && high <= size.height && picture.fitted)) return;
  const clamp = (at, space, all) => (all <= space ? (space - all) / 2 : Math.min(Math.max(space / 2 - at * k, space - all), 0));
  look(picture, { k, x: clamp(box.x, size.width, wide), y: clamp(box.y, size.height, high) });
}

/** Where a camera is, and back to it. */
export const camera = ({ zoom, fitted }) => ({ zoom, fitted });
export function restore(picture, { zoom, fitted }) {
  picture.fitted = fitted;
  look(picture, zoom);
}

function look(picture, { k, x, y }) {
  picture.zoom = { k, x, y };
  picture.inner.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
}
