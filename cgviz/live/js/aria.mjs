// Sentences: what happens at a step, and what a screen reader says of a node, a link or a scope.
import { SEED, nodeAt, textAt } from "./time.mjs";

export const flat = (text) => text.replace(/\s*\n\s*/g, " ");

/** What happens at a step, in one sentence. */
export function sentence(page, step) {
  const { display, panels, texts } = page;
  if (step === SEED) {
    const seeds = [...display.links.keys()].filter((i) => display.links[i].position < 0);
    const told = seeds.map((i) => `${panels[display.links[i].source].title} gets upstream ${texts.links[i].gradient}`);
    return `The backward pass starts: ${told.join(", ")}.`;
  }
  const i = nodeAt(display, step);
  if (i < 0) return "Nothing has run yet: inputs and variables have their values.";
  const panel = panels[i];
  if (step <= 0) {
    const place = display.forward.length + step;
    const made = panel.outputs.map((o) => `${o.name} = ${o.value}`).join(", ");
    const { level } = display.nodes[i];
    const by = level ? `, run by backward pass ${level - 1}` : "";
    return `Forward ${place} of ${display.forward.length}${by}: ${panel.title} makes ${made}.`;
  }
  const head = `Backward step ${step} of ${display.steps}: `;
  if (!panel.inputs.length) return `${head}${panel.title}.`;
  const came = panel.outputs.map((o) => o.upstream).join(", ");
  const given = panel.inputs.filter((x) => x.flows).map((x) => `${x.downstream} to ${x.name}`);
  return `${head}${panel.title} gets upstream ${came} and returns ${given.join(", ") || "nothing"}.`;
}

/** What a screen reader says of a node at `step`. */
export function spokenNode({ display, texts, panels }, i, step) {
  const parts = [texts.nodes[i]];
  if (display.nodes[i].step <= step) parts.push(`value ${panels[i].outputs.map((o) => o.value).join(", ")}`);
  else parts.push("not run yet");
  const own = display.texts.findIndex((text) => text.of === "node" && text.i === i && text.role === "gradient");
  const gradient = own < 0 ? "" : textAt(texts.written[own], step);
  if (gradient) parts.push(gradient.includes("=") ? gradient : `gradient ${gradient}`);
  return flat(parts.join(", "));
}

/** What a screen reader says of a link at `step`. */
export function spokenLink({ display, texts }, i, step) {
  const link = display.links[i];
  const { value, gradient, reason } = texts.links[i];
  const parts = [display.nodes[link.source].step <= step ? `value ${value}` : "no value yet"];
  if (link.step <= step && reason) parts.push(flat(reason));
  else if (link.step <= step && gradient) parts.push(`gradient ${gradient} flows back`);
  return `${texts.nodes[link.source]} to ${texts.nodes[link.target] ?? "the target of the pass"}: ${parts.join(", ")}`;
}

/** Say what is new: of all of a picture when it is new, then of what the keyboard is on. */
export function speak(view) {
  for (const picture of view.pictures) {
    if (!picture.spoken) picture.items.forEach((item) => describe(view, picture, item));
    picture.spoken = true;
  }
  const item = view.focused?.cgvizItem;
  if (item && view.pictures[item.side]) describe(view, view.pictures[item.side], item);
}

/** Say what an item is at this moment. */
export function describe(view, picture, item) {
  const text = spoken(view, picture.page, item);
  if (item.g.getAttribute("aria-label") !== text) item.g.setAttribute("aria-label", text);
}

function spoken(view, page, { kind, i }) {
  if (kind === "frame") return `${page.display.frames[i].label}: scope`;
  const say = kind === "node" ? spokenNode : spokenLink;
  const step = view.stepOn(page);
  const { nodes, links } = view.questions.hidden;
  if (!(kind === "node" ? nodes : links).has(i)) return say(page, i, step);
  return `${say(page, i, Math.min(step, 0))}, gradient hidden: predict it`;
}
