// Time: which steps there are, and what is there at each.

export const SEED = 0.5; // the start of the backward pass: upstream is at its target, and no rule has run

/** Every step of a display list: from -F, nothing run, over 0, all run, and SEED, to the last backward step. */
export function moments(display) {
  const found = [];
  for (let i = -display.forward.length; i <= 0; i++) found.push(i);
  return found.concat(display.backward.length ? SEED : [], display.backward);
}

/** The step after `step`, or before it; the same where there is none. */
export function next(display, step) {
  return moments(display).find((m) => m > step) ?? step;
}

export function previous(display, step) {
  return moments(display).findLast((m) => m < step) ?? step;
}

/** A text with versions, [[from step, text], ...], as it is at `step`. */
export function textAt(versions, step) {
  return versions.findLast(([from]) => from <= step)?.[1] ?? "";
}

/** The node whose op runs, or whose rule runs, at `step`; -1 where none does. */
export function nodeAt(display, step) {
  return display.nodes.findLastIndex((node) => node.now.includes(step));
}

/** Everything that is seen at `step`: its role, what it belongs to and, of a text, what it says. */
export function seenAt({ display, texts }, step) {
  const paths = display.paths.filter((path) => path.step <= step).map(({ role, of, i }) => ({ role, of, i }));
  const written = display.texts.map(({ role, of, i }, k) => ({ role, of, i, says: textAt(texts.written[k], step) }));
  return [...paths, ...written.filter(({ says }) => says)];
}
