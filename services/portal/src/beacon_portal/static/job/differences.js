// The differences of two texts, word by word, by Myers' algorithm.

const MAX_EDITS = 1_000;
const WORDS = /[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu;

/**
 * Both texts as pieces. `common` pieces are in the other text too, in the same order.
 *
 * @param {string} one
 * @param {string} other
 * @returns {{text: string, common: boolean}[][]}
 */
export function differences(one, other) {
  const [left, right] = [one.match(WORDS) ?? [], other.match(WORDS) ?? []];
  const [inLeft, inRight] = [new Uint8Array(left.length), new Uint8Array(right.length)];
  const start = equalWords(left, 0, right, 0);
  let end = 0;
  while (end < Math.min(left.length, right.length) - start && left.at(-1 - end) === right.at(-1 - end)) end += 1;
  inLeft.fill(1, 0, start).fill(1, left.length - end);
  inRight.fill(1, 0, start).fill(1, right.length - end);
  const middle = [left.slice(start, left.length - end), right.slice(start, right.length - end)];
  for (const [x, y] of commonWords(...middle)) {
    inLeft[start + x] = 1;
    inRight[start + y] = 1;
  }
  return [pieces(left, inLeft), pieces(right, inRight)];
}

/** Places of the words of a longest common subsequence; none if the texts have hardly anything in common. */
function commonWords(left, right) {
  const steps = editSteps(left, right);
  const found = [];
  let [x, y] = [left.length, right.length];
  for (let edits = steps.length - 1; edits >= 0; edits -= 1) {
    const reach = (diagonal) => steps[edits][diagonal + edits];
    const before = edits === 0 ? 0 : diagonalBefore(x - y, edits, reach);
    const [fromX, fromY] = edits === 0 ? [0, 0] : [reach(before), reach(before) - before];
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      found.push([x, y]);
    }
    [x, y] = [fromX, fromY];
  }
  return found;
}

/** For each number of edits, how far each diagonal reached before; empty if there are too many edits. */
function editSteps(left, right) {
  const limit = Math.min(left.length + right.length, MAX_EDITS);
  const furthest = new Int32Array(2 * limit + 3);
  const middle = limit + 1;
  const steps = [];
  for (let edits = 0; edits <= limit; edits += 1) {
    steps.push(furthest.slice(middle - edits, middle + edits + 1));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const before = diagonalBefore(diagonal, edits, (one) => furthest[middle + one]);
      const start = edits === 0 ? 0 : furthest[middle + before] + Number(before < diagonal);
      const x = start + equalWords(left, start, right, start - diagonal);
      furthest[middle + diagonal] = x;
      if (x >= left.length && x - diagonal >= right.length) return steps;
    }
  }
  return [];
}

function equalWords(left, x, right, y) {
  let found = 0;
  while (x + found < left.length && y + found < right.length && left[x + found] === right[y + found]) found += 1;
  return found;
}

/** The diagonal from which the last edit came: a word of the right text was inserted, or one of the left was deleted. */
function diagonalBefore(diagonal, edits, reach) {
  const inserted = diagonal === -edits || (diagonal !== edits && reach(diagonal - 1) < reach(diagonal + 1));
  return inserted ? diagonal + 1 : diagonal - 1;
}

function pieces(words, inBoth) {
  const found = [];
  for (const [index, text] of words.entries()) {
    const common = inBoth[index] === 1;
    const last = found.at(-1);
    if (last?.common === common) last.text += text;
    else found.push({ text, common });
  }
  return found;
}
