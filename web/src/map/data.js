// What Python wrote into the page, decoded: numbers are little-endian bytes in base64, sets of ids are gaps as varints.

export function bytes(text) {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}

export const int16 = (text) => new Int16Array(bytes(text).buffer);
export const int32 = (text) => new Int32Array(bytes(text).buffer);
export const float32 = (text) => new Float32Array(bytes(text).buffer);

// Ids in rising order: each is written as its distance from the one before, seven bits to a byte.
export function ids(text) {
  const found = [];
  let id = -1;
  let gap = 0;
  let shift = 0;
  for (const byte of bytes(text)) {
    gap += (byte & 127) * 2 ** shift;
    shift += 7;
    if (byte < 128) {
      found.push((id += gap));
      gap = shift = 0;
    }
  }
  return found;
}

function columnOf(written) {
  const values = written.words ? int16(written.values) : float32(written.values);
  return { name: written.name, words: written.words, values };
}

export function pictureOf(written, first) {
  const names = written.names ?? first.names;
  const labels = written.names ? written.labels : first.labels;
  return {
    ...written,
    names,
    labels,
    points: int16(written.points),
    cluster: int16(written.cluster),
    degrees: int32(written.degrees),
    columns: written.columns.map(columnOf),
    rows: new Map(names.map((name, row) => [name, row])),
  };
}
