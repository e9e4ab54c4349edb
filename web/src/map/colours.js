// What a colour says: the cluster, a number, a word of a column, or whether an entity appears in a slot.
import { ids } from "./data.js";

const SCALE = [[68, 40, 120], [52, 94, 165], [33, 145, 140], [94, 190, 88], [240, 200, 40]]; // low to high
const WORDS = [[214, 96, 41], [38, 120, 178], [44, 150, 84], [200, 60, 110], [130, 98, 196], [160, 120, 30],
  [20, 155, 165], [150, 80, 50]];
const CHOSEN = [214, 96, 41];

export function themeOf(element) {
  const style = getComputedStyle(element);
  const read = (name) => style.getPropertyValue(name).trim().split(/\s+/).map(Number);
  return { background: read("--page"), axis: read("--axis"), plain: read("--plain") };
}

export const css = (colour) => `rgb(${colour.map(Math.round).join(" ")})`;

function onScale(share) {
  const place = Math.min(1, Math.max(0, share)) * (SCALE.length - 1);
  const step = Math.min(SCALE.length - 2, Math.floor(place));
  return SCALE[step].map((low, part) => low + (SCALE[step + 1][part] - low) * (place - step));
}

// The ways to colour that the pictures of a page offer: those of any picture, each named once.
export function waysOf(pictures) {
  const named = (list) => [...new Set(pictures.flatMap((picture) => list(picture).map((each) => each.name)))];
  const some = pictures.some((picture) => picture.clusters.length);
  return [
    { id: "cluster", group: "", label: some ? "Cluster" : "Cluster (none found)" },
    { id: "degree", group: "", label: "Degree" },
    ...named((p) => p.columns).map((name) => ({ id: `column ${name}`, group: "Your columns", label: name })),
    ...named((p) => p.slots).map((name) => ({ id: `slot ${name}`, group: "Appears as", label: name })),
  ];
}

// How one picture is coloured: a colour for each row (null: the plain one), and what the colours mean.
export function colouring(picture, id) {
  const space = id.indexOf(" ");
  const [kind, name] = space < 0 ? [id] : [id.slice(0, space), id.slice(space + 1)];
  if (kind === "cluster") return byCluster(picture);
  if (kind === "slot") return bySlot(picture, picture.slots.find((slot) => slot.name === name), name);
  if (kind === "degree") return byNumber(picture.degrees, "degree", true);
  const column = picture.columns.find((each) => each.name === name);
  if (!column) return { of: () => null, keys: [{ label: `no column ${name} here` }] };
  return column.words ? byWord(column) : byNumber(column.values, column.name, false);
}

function byCluster({ cluster, clusters }) {
  const of = (row) => clusters[cluster[row]]?.colour ?? null;
  const keys = clusters.map((each, index) => ({
    colour: each.colour,
    label: each.name,
    about: each.typical.join(", "),
    count: each.size,
    has: (row) => cluster[row] === index,
  }));
  const none = clusters.length ? "in no cluster" : "no clusters: no direction stands out from chance";
  return { of, keys: [...keys, { label: none }] };
}

function bySlot(picture, slot, name) {
  const members = slot ? (slot.set ??= new Set(ids(slot.members))) : new Set();
  const key = { colour: CHOSEN, label: name, count: members.size, has: (row) => members.has(row) };
  return { of: (row) => (members.has(row) ? CHOSEN : null), keys: [key, { label: "does not" }], ahead: true };
}

function byNumber(values, label, always) {
  const known = values.filter((value) => !Number.isNaN(value));
  let [low, high] = [Infinity, -Infinity];
  for (const value of known) [low, high] = [Math.min(low, value), Math.max(high, value)];
  // Numbers that are counted, or reach from one to many, are told apart by their powers of ten.
  const bend = always || (low > 0 && high > 100 * low) ? (value) => Math.log1p(value - Math.min(0, low)) : (value) => value;
  const [from, to] = [bend(low), bend(high)];
  const share = (value) => (to > from ? (bend(value) - from) / (to - from) : 0.5);
  const shown = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4));
  const keys = known.length
    ? [{ colour: onScale(0), label: `${label} ${shown(low)}` }, { colour: onScale(1), label: `${label} ${shown(high)}` }]
    : [];
  if (known.length < values.length) keys.push({ label: "without a value" });
  return { of: (row) => (Number.isNaN(values[row]) ? null : onScale(share(values[row]))), keys };
}

function byWord({ words, values }) {
  const of = (row) => (values[row] < 0 ? null : WORDS[values[row] % WORDS.length]);
  const keys = words.map((word, code) => ({
    colour: WORDS[code % WORDS.length],
    label: word,
    has: (row) => values[row] === code,
  }));
  return { of, keys: values.includes(-1) ? [...keys, { label: "without a value" }] : keys };
}
