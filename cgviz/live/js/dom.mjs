// The DOM: elements made and changed in one line, sliders, and keys. Text is never parsed as HTML.

/** An element with attributes, listeners (`onclick`), style variables (`--cgviz-x`) and children; strings are text. */
const maker = (namespace) => (tag, props = {}, ...children) => {
  const [name, ...classes] = tag.split(".");
  const element = document.createElementNS(namespace, name);
  if (classes.length) element.setAttribute("class", classes.map((c) => `cgviz-${c}`).join(" "));
  for (const [key, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  return fill(element, ...children);
};
export const h = maker("http://www.w3.org/1999/xhtml");
export const s = maker("http://www.w3.org/2000/svg");

// What Python wrote, a text or [tag, attributes, ...children], as it is at a step: before `since` it is `later`, and at
// `since` it has the class of what comes at this step.
export function built(part, step, make = h) {
  if (typeof part === "string") return part;
  const [tag, { since, later, ...props }, ...children] = part;
  if (since > step) return later && h("span.none", {}, later);
  const own = tag.startsWith("svg") ? s : make;
  return own(since >= step ? `${tag}.come` : tag, props, ...children.map((child) => built(child, step, own)));
}

/** Replace the children of an element by these, unless they are the same; empty ones, such as null, are left out. */
export function fill(element, ...children) {
  const found = children.filter((child) => ![null, undefined, false, ""].includes(child));
  const same = found.length === element.childNodes.length && found.every((child, n) => child === element.childNodes[n]);
  if (!same) element.replaceChildren(...found);
  return element;
}

/** Set the text of an element, or attributes, only where they change. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
/** Set the text of an element; what begins at the place `at` is an element of its own, as it comes at this step. */
export function tell(element, text, at) {
  if (element.textContent !== text) fill(element, text.slice(0, at), h("span.come", {}, text.slice(at)));
}
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

export const toggle = (element, name, on) => element.classList.toggle(`cgviz-${name}`, Boolean(on));
/** Give the focus to an element, if there is one, without scrolling to it. */
export const focus = (element) => element?.focus({ preventScroll: true });

/** Run the action of a key, if it has one, and keep the key from everything else. */
export function use(event, run) {
  if (!run || event.altKey) return;
  run();
  event.preventDefault();
  event.stopPropagation();
}

/** A slider between its name and its position in words; `run` gets the number to which it is moved. */
export function makeSlider(name, range, run) {
  const words = h("output", { "aria-hidden": "true" });
  const oninput = () => run(Number(input.value));
  const input = h("input", { type: "range", min: 0, step: 1, "aria-label": name, ...range, oninput });
  const paint = (value, said, max = range.max) => {
    set(input, { max, "aria-valuetext": said });
    input.value = value;
    say(words, said);
  };
  const element = h("div.slider", {}, h("span", { "aria-hidden": "true" }, name), input, words);
  return { element, input, words, paint };
}

/** A part of the side panel under a title. */
export const section = (title, ...children) => h("section.input", {}, h("p.subtitle", {}, title), ...children);

/** Content that a click on its `words` opens; hidden unless there `is` something, painted only while it is open. */
export function makeFold(name, words, content, is, paint) {
  const painted = () => (element.hidden = !is()) || (element.open && paint());
  const element = h(`details.${name}`, { ontoggle: painted }, h("summary", {}, words), content);
  return { element, paint: painted };
}

/** Whether the page around an element is dark by its colours; false where JupyterLab marks dark pages itself. */
export function darkAround(el) {
  if (!(el.getRootNode() instanceof ShadowRoot) && document.querySelector("[data-jp-theme-light]")) return false;
  for (let around = el; around; around = around.parentElement ?? around.getRootNode().host) {
    const [red, green, blue, opaque] = pixel(getComputedStyle(around).backgroundColor);
    if (opaque) return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 80;
  }
  return false;
}

/** Red, green, blue and opacity from 0 to 255 of any CSS colour, in whatever notation. */
export function pixel(colour) {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}
