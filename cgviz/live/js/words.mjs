// Words: sentences and rows made of the texts that Python sent.
import { at, nodeAt, textAt } from "./time.mjs";

export const flat = (text) => text.replace(/\s*\n\s*/g, " ");

/** What happens at a step, in one sentence. */
export function sentence(page, step) {
  const { lines, notes } = page;
  const i = nodeAt(lines, step);
  if (i < 0) return "Nothing has run yet: inputs and variables have their values.";
  const note = notes[i];
  if (step <= 0) {
    const place = lines.forward.length + step;
    const made = note.outputs.map((o) => `${o.name} = ${o.value}`).join(", ");
    const { floor } = lines.nodes[i];
    const by = floor ? `, run by backward pass ${floor - 1}` : "";
    return `Forward ${place} of ${lines.forward.length}${by}: ${note.title} makes ${made}.`;
  }
  const head = `Backward step ${step} of ${lines.steps}: `;
  if (!note.inputs.length) return `${head}${note.title}.`;
  const came = note.outputs.map((o) => o.upstream).join(", ");
  const given = note.inputs.filter((x) => x.flows).map((x) => `${x.downstream} to ${x.name}`);
  return `${head}${note.title} gets upstream ${came} and hands back ${given.join(", ") || "nothing"}.`;
}

/** The rows of the table: one per step and input, in the order the steps ran. */
export function rows(page) {
  const found = [];
  page.lines.nodes.forEach((node, i) => {
    if (node.kind === "target") return;
    const note = page.notes[i];
    for (const order of node.orders.slice(0, 1)) {
      for (const input of note.inputs.length ? note.inputs : [null]) {
        found.push({
          step: order,
          op: note.title,
          input: input ? `${input.name} = ${input.value}` : "",
          upstream: note.outputs.map((o) => o.upstream).join(", "),
          local: input ? input.products.map((p) => localText(p)).join(", ") : "",
          downstream: input ? input.downstream : "",
        });
      }
    }
  });
  return found.sort((a, b) => a.step - b.step);
}

function localText(product) {
  if (!product.cells) return product.local;
  return `[${product.cells.map((row) => `[${row.join(", ")}]`).join(", ")}]`;
}

/** What a screen reader says of a node at `step`. */
export function spokenNode(page, i, step) {
  const { lines, notes, texts } = page;
  const now = at(lines, step).nodes[i];
  const note = notes[i];
  const parts = [texts.nodes[i].called];
  if (now.seen) parts.push(`value ${note.outputs.map((o) => o.value).join(", ")}`);
  else parts.push("not run yet");
  const gradient = textAt(texts.nodes[i].gradient, step);
  if (gradient) parts.push(gradient.includes("=") ? gradient : `gradient ${gradient}`);
  return flat(parts.join(", "));
}

/** What a screen reader says of a link at `step`. */
export function spokenLink(page, i, step) {
  const { lines, texts } = page;
  const link = lines.links[i];
  const text = texts.links[i];
  const now = at(lines, step).links[i];
  const from = texts.nodes[link.from].called;
  const to = link.target ? "the target of the pass" : texts.nodes[link.to].called;
  const value = now.value ? `value ${text.spoken}` : "no value yet";
  const back = !now.back || !text.gradient ? "" : text.blocked ? flat(text.gradient) : `gradient ${text.back} flows back`;
  return `${from} to ${to}: ${value}${back && `, ${back}`}`;
}
