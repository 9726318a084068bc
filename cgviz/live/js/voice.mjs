// The voice: what a screen reader says of a node, a link or a scope.
import { spokenLink, spokenNode } from "./words.mjs";

/** Say what is new: of all of a picture when it is new, then of what the keyboard is on. */
export function speak(view) {
  for (const ink of view.inks) {
    if (!ink.spoken) ink.items.forEach((item) => describe(view, ink, item));
    ink.spoken = true;
  }
  const item = view.focused?.cgvizItem;
  if (item && view.inks[item.side]) describe(view, view.inks[item.side], item);
}

/** Say what an item is at this moment. */
export function describe(view, ink, item) {
  const text = spoken(view, ink.page, item);
  if (item.g.getAttribute("aria-label") !== text) item.g.setAttribute("aria-label", text);
}

function spoken(view, page, { kind, i }) {
  if (kind === "frame") return `${page.lines.frames[i].label}: scope`;
  const words = kind === "node" ? spokenNode : spokenLink;
  const step = view.stepOn(page);
  const { nodes, links } = view.questions.hidden;
  if (!(kind === "node" ? nodes : links).has(i)) return words(page, i, step);
  return `${words(page, i, Math.min(step, 0))}, gradient hidden: predict it`;
}
