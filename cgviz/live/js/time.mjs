// Time: what has come at which step.

/** Every moment of a page: from -F, nothing run, over 0, all run, to the last backward step. */
export function moments(lines) {
  const found = [];
  for (let i = -lines.forward.length; i <= 0; i++) found.push(i);
  return found.concat(lines.backward);
}

/** The moment after `step`, or before it; the same where there is none. */
export function next(lines, step) {
  return moments(lines).find((m) => m > step) ?? step;
}

export function previous(lines, step) {
  return moments(lines).findLast((m) => m < step) ?? step;
}

/** What has come at `step`: per node and per link, whether it is seen and whether it is new. */
export function at(lines, step) {
  const done = step < 0 ? lines.forward.length + step : lines.forward.length;
  const rank = new Map(lines.forward.map((node, place) => [node, place]));
  const run = step <= 0 ? lines.forward[done - 1] : undefined;
  const before = previous(lines, step);
  const seen = (node) => {
    while (lines.nodes[node].owner >= 0) node = lines.nodes[node].owner; // a body comes with its op
    return !rank.has(node) || rank.get(node) < done;
  };
  const nodes = lines.nodes.map((node, i) => ({
    seen: node.kind === "target" ? done === lines.forward.length : seen(i),
    now: step > 0 ? node.orders.some((o) => o > before && o <= step) : i === run,
  }));
  const links = lines.links.map((link) => ({
    value: seen(link.from),
    forwardNow: step <= 0 && link.to === run,
    back: step > 0 && link.come <= step,
    backNow: step > 0 && link.order > before && link.order <= step,
  }));
  return { nodes, links };
}

/** A text that changes with time, [[from step, text], ...], as it is at `step`. */
export function textAt(changes, step) {
  let text = "";
  if (step > 0) for (const [from, then] of changes) if (from <= step) text = then;
  return text;
}

/** The node whose op runs, or whose rule runs, at `step`; -1 where none does. */
export function nodeAt(lines, step) {
  if (step <= 0) return lines.forward[lines.forward.length + step - 1] ?? -1;
  const before = previous(lines, step);
  return lines.nodes.findLastIndex((n) => n.orders.some((o) => o > before && o <= step));
}
