// Sentences: what happens at a step, and what a screen reader says of a node.
import { SEED, nodeAt, textAt, whereIs } from "./time.mjs";

export const flat = (text) => text.replace(/\s*\n\s*/g, " ");

/** What happens at a step, in one sentence; at an open question nothing but that it is `asked`. */
export function sentence({ display, panels, texts }, step, asked = false) {
  const where = whereIs(display, step);
  const at = where[0].toUpperCase() + where.slice(1);
  if (asked) return `${at}: predict before you go on.`;
  if (step === SEED) {
    const told = ({ source }, i) => `${panels[source].title} gets upstream ${texts.links[i].gradient}`;
    return `${at}: ${display.links.flatMap((link, i) => (link.position < 0 ? [told(link, i)] : [])).join(", ")}.`;
  }
  const i = nodeAt(display, step);
  if (i < 0) return "Nothing has run yet: inputs and variables have their values.";
  const { title, inputs, outputs } = panels[i];
  if (step <= 0) {
    const { level } = display.nodes[i];
    const by = level ? `, run by backward pass ${level - 1}` : "";
    return `${at}${by}: ${title} makes ${outputs.map((o) => `${o.name} = ${o.value}`).join(", ")}.`;
  }
  if (!inputs.length) return `${at}: a backward rule of ${title} runs.`; // which are folded
  const given = inputs.filter((x) => x.flows).map((x) => `${x.downstream} to ${x.name}`).join(", ") || "nothing";
  return `${at}: ${title} gets upstream ${outputs.map((o) => o.upstream).join(", ")} and returns ${given}.`;
}

/** What a screen reader says of a node at `step`; what it gets back may be `hidden`. */
export function spoken({ display, texts, panels }, i, step, hidden) {
  const value = display.nodes[i].step <= step ? `value ${panels[i].outputs.map((o) => o.value).join(", ")}` : "not run yet";
  if (hidden) return flat(`${texts.nodes[i]}, ${value}, gradient hidden: predict it`);
  const own = display.texts.findIndex((text) => text.of === "node" && text.i === i && text.role === "gradient");
  const gradient = own < 0 ? "" : textAt(texts.written[own], step);
  const told = gradient && (gradient.includes("=") ? `, ${gradient}` : `, gradient ${gradient}`);
  return flat(`${texts.nodes[i]}, ${value}${told}`);
}
