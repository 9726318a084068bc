// The DOM: elements made and changed in a line. What is text stays text.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners such as `onclick`, variables of its style such as `--cgviz-x`, and children: strings are text. */
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElement(name || "div"), classes, props, children);
}

export function s(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElementNS(SVG, name), classes, props, children);
}

function filled(element, classes, props, children) {
  if (classes.length) element.setAttribute("class", classes.map((c) => `cgviz-${c}`).join(" "));
  for (const [key, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Set the text of an element only where it changed. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set attributes of an element only where they changed. */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
  }
}

export const toggle = (element, name, on) => element.classList.toggle(`cgviz-${name}`, Boolean(on));

/** A page that says dark only by its colours, such as one with a shadow root of its own. */
export function darkAround(el) {
  const apart = el.getRootNode() instanceof ShadowRoot;
  if (!apart && document.querySelector("[data-jp-theme-light]")) return false;
  for (let at_ = el; at_; at_ = at_.parentElement ?? at_.getRootNode().host) {
    const [red, green, blue, opaque] = pixel(getComputedStyle(at_).backgroundColor);
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
