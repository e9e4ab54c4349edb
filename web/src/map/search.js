// Find entities by a part of their name or label: the whole name first, then beginnings, then words, then the rest.

const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

export class Index {
  constructor(pictures) {
    this.entries = new Map();
    for (const { names, labels } of pictures) {
      names.forEach((name, row) => {
        if (!this.entries.has(name)) this.entries.set(name, labels?.[row] ?? null);
      });
    }
  }

  get texts() {
    return (this.made ??= [...this.entries].map(([name, label]) => [name, folded(name), label && folded(label)]));
  }

  // The best names, and how many there are in all.
  find(asked, most) {
    const wanted = folded(asked.trim());
    if (!wanted) return { names: [], all: [] };
    const found = [];
    for (const [name, one, other] of this.texts) {
      const rank = Math.min(rankOf(one, wanted), other === null ? 9 : rankOf(other, wanted));
      if (rank < 9) found.push([rank, (other ?? one).length, name]);
    }
    found.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    const all = found.map(([, , name]) => name);
    return { names: all.slice(0, most), all };
  }
}

function rankOf(text, wanted) {
  const at = text.indexOf(wanted);
  if (at < 0) return 9;
  if (text === wanted) return 0;
  if (at === 0) return /[\p{L}\p{N}]/u.test(text[wanted.length]) ? 2 : 1;
  return /[\p{L}\p{N}]/u.test(text[at - 1]) ? 4 : 3;
}
