// The camera: how large a picture is shown, and which part of it.
//
// A picture's `zoom` is { k, x, y }: a point p of it is seen at k p + (x, y).

const FONT_SCALE = { smallest: 0.5, least: 0.8, most: 1.5 };
const CARD = 362; // with the gap before it
const TALLEST = 620;
const LARGEST = 2.2;

/**
 * How pictures of these widths are arranged: beside each other or not, the card beside them or below.
 *
 * The first of these in which all of them are seen in letters that can be read.
 */
export function arrangement(widths, total) {
  const ways = [[total - CARD, widths.length], [total, widths.length], [total - CARD, 1], [total, 1]];
  const fits = ([room, columns]) =>
    (room === total || total >= 760) && widths.every((w) => w * FONT_SCALE.least <= room / columns - 12);
  const [room, columns] = ways.find(fits) ?? ways[3];
  return { below: room === total, columns };
}

/** Show a picture in a room of this width, so large that it can be read; `wide` over all of it. */
export function fit(ink, room, wide) {
  const { width, height } = ink.page.lines;
  const tallest = wide ? Infinity : TALLEST;
  let k = Math.min(room / width, FONT_SCALE.most);
  if (k < FONT_SCALE.smallest) k = FONT_SCALE.least; // what cannot be read when it is small is panned
  const whole = Math.min(k, tallest / height);
  k = whole >= 0.75 ? whole : Math.min(k, 1); // what is too tall is panned, and followed
  if (wide) k = Math.max(Math.min(room / width, LARGEST), 0.4);
  const tall = Math.min(height * k, tallest);
  ink.size = { width: room, height: tall };
  ink.svg.setAttribute("width", Math.round(room));
  ink.svg.setAttribute("height", Math.round(tall));
  ink.fitted = true;
  look(ink, { k, x: Math.max((room - width * k) / 2, 0), y: 0 });
}

/** All of a picture in sight, however small. */
export function showWhole(ink) {
  const { size, page: { lines: { width, height } } } = ink;
  const k = Math.min(size.width / width, size.height / height, LARGEST);
  look(ink, { k, x: (size.width - width * k) / 2, y: (size.height - height * k) / 2 });
}

/** Nearer or farther; the point `at` stays where it is. */
export function zoom(ink, factor, at = [ink.size.width / 2, ink.size.height / 2]) {
  const { k, x, y } = ink.zoom;
  const to = Math.min(Math.max(k * factor, 0.1), 6);
  ink.fitted = false;
  look(ink, { k: to, x: at[0] - ((at[0] - x) * to) / k, y: at[1] - ((at[1] - y) * to) / k });
}

/** Let the pointer drag a picture, and the wheel with Ctrl zoom it. */
export function pan(ink, on) {
  let from = null;
  on(ink.svg, "pointerdown", (event) => {
    if (event.button !== 0) return;
    from = { x: event.clientX - ink.zoom.x, y: event.clientY - ink.zoom.y, px: event.clientX, py: event.clientY };
    ink.dragged = false;
  });
  let frame = 0;
  on(ink.svg, "pointermove", (event) => {
    if (!from) return;
    if (!ink.dragged && Math.hypot(event.clientX - from.px, event.clientY - from.py) < 4) return;
    if (!ink.dragged) ink.svg.setPointerCapture(event.pointerId);
    ink.dragged = true;
    ink.fitted = false;
    ink.zoom = { ...ink.zoom, x: event.clientX - from.x, y: event.clientY - from.y };
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      look(ink, ink.zoom);
    });
  });
  const end = () => (from = null);
  on(ink.svg, "pointerup", end);
  on(ink.svg, "pointercancel", end);
  on(ink.svg, "wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // plain scrolling is the page's
    event.preventDefault();
    const box = ink.svg.getBoundingClientRect();
    zoom(ink, Math.exp(-event.deltaY * 0.002), [event.clientX - box.x, event.clientY - box.y]);
  }, { passive: false });
}

/** Bring a box, such as a node, into sight if it is not. */
export function reveal(ink, box) {
  if (!box || !ink.size) return;
  const { size, zoom: { k, x, y }, page: { lines: { width, height } } } = ink;
  const left = (box.x - box.width / 2) * k + x;
  const top = (box.y - box.height / 2) * k + y;
  const edge = 24;
  const inside = left >= edge && top >= edge && left + box.width * k <= size.width - edge
    && top + box.height * k <= size.height - edge;
  if (inside || (width * k <= size.width && height * k <= size.height && ink.fitted)) return;
  const clamp = (v, room, all) => (all * k <= room ? (room - all * k) / 2 : Math.min(Math.max(v, room - all * k), 0));
  look(ink, {
    k,
    x: clamp(size.width / 2 - box.x * k, size.width, width),
    y: clamp(size.height / 2 - box.y * k, size.height, height),
  });
}

function look(ink, { k, x, y }) {
  ink.zoom = { k, x, y };
  ink.inner.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
}
