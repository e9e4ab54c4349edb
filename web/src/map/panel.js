// What stands beside the pictures: the search, what the colours mean, and the entity that is selected.
import { css, waysOf } from "./colours.js";
import { ids } from "./data.js";

const MOST_FOUND = 12;
const MOST_SLOTS = 12;

export function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// A text that others wrote: in its own direction, and never read as HTML.
const written = (text) => element("bdi", {}, text);

export function searchBox(index, { choose, matched }) {
  const input = element("input", {
    type: "search", id: "search", placeholder: "Search (press /)", autocomplete: "off", spellcheck: "false",
    role: "combobox", "aria-label": "Search entities", "aria-controls": "found", "aria-expanded": "false",
  });
  const list = element("ul", { id: "found", role: "listbox", "aria-label": "Entities found", hidden: "" });
  const said = element("p", { class: "said", role: "status" });
  let [names, active] = [[], -1];

  const mark = (place) => {
    active = place;
    [...list.children].forEach((each, row) => each.setAttribute("aria-selected", String(row === active)));
    if (active >= 0) {
      input.setAttribute("aria-activedescendant", `found-${active}`);
      list.children[active].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const take = (name) => {
    close();
    choose(name);
  };
  const look = () => {
    const found = index.find(input.value, MOST_FOUND);
    names = found.names;
    list.replaceChildren(...names.map((name, row) => option(index, name, row, take)));
    list.hidden = !names.length;
    input.setAttribute("aria-expanded", String(names.length > 0));
    const count = found.all.length.toLocaleString("en");
    said.textContent = input.value.trim() && (found.all.length ? `${count} found` : "no entity has this in its name");
    mark(-1);
    matched(input.value.trim() ? found.all : null);
  };
  input.addEventListener("input", look);
  input.addEventListener("focus", () => input.value.trim() && (list.hidden = !names.length));
  input.addEventListener("blur", () => setTimeout(close, 150));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && names.length) {
      mark((active + step + names.length) % names.length);
      event.preventDefault();
    } else if (event.key === "Enter" && names.length) take(names[Math.max(0, active)]);
  });
  return {
    element: element("div", { class: "search" }, input, list, said),
    focus: () => (input.focus(), input.select()),
    clear: () => {
      [input.value, said.textContent] = ["", ""];
      close();
      input.blur();
    },
  };
}

function option(index, name, row, take) {
  const label = index.entries.get(name);
  const parts = label === null ? [written(name)] : [written(label), element("span", { class: "about" }, written(name))];
  // Before the input loses the focus, which would close the list.
  const onpointerdown = (event) => (event.preventDefault(), take(name));
  return element("li", { role: "option", id: `found-${row}`, "aria-selected": "false", onpointerdown }, ...parts);
}

export function wayChoice(pictures, change) {
  const select = element("select", { id: "way", onchange: () => change(select.value) });
  const groups = new Map([["", select]]);
  for (const { id, group, label } of waysOf(pictures)) {
    if (!groups.has(group)) groups.set(group, select.appendChild(element("optgroup", { label: group })));
    groups.get(group).append(element("option", { value: id }, label));
  }
  return { element: element("label", { class: "way" }, "Colour by ", select), select };
}

// The keys of all pictures; one that stands for entities is a button, which brings them out.
export function legend(parent, pictures, focus) {
  parent.replaceChildren();
  for (const picture of pictures) {
    if (pictures.length > 1) parent.append(element("h3", {}, written(picture.data.title)));
    parent.append(element("ul", { class: "keys" }, ...picture.keys.map((key) => keyOf(picture, key, focus))));
  }
}

function keyOf(picture, key, focus) {
  const dot = element("span", { class: "dot" });
  if (key.colour) dot.style.background = css(key.colour);
  const parts = [dot, element("b", {}, written(key.label))];
  if (key.count !== undefined) parts.push(element("span", { class: "count" }, key.count.toLocaleString("en")));
  if (key.about) parts.push(element("span", { class: "about" }, written(key.about)));
  if (!key.has) return element("li", {}, element("span", { class: "key" }, ...parts));
  const button = element("button", { class: "key", type: "button", "aria-pressed": "false" }, ...parts);
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") === "true";
    for (const each of document.querySelectorAll(".key[aria-pressed=true]")) each.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", String(!pressed));
    focus(picture, pressed ? null : key);
  });
  return element("li", {}, button);
}

// What is known of an entity: in the first picture that has it.
export function details(parent, picture, row, choose) {
  parent.replaceChildren();
  parent.hidden = row === undefined;
  if (row === undefined) return;
  const { data } = picture;
  const [name, label] = [data.names[row], picture.name(row)];
  const facts = [["degree", data.degrees[row].toLocaleString("en")]];
  if (name !== label) facts.unshift(["name", name]);
  const cluster = data.clusters[data.cluster[row]];
  if (cluster) facts.push(["cluster", `${cluster.name}: ${cluster.typical.join(", ")}`]);
  for (const { name: column, words, values } of data.columns) {
    const value = words ? words[values[row]] : Number.isNaN(values[row]) ? undefined : String(values[row]);
    if (value !== undefined) facts.push([column, value]);
  }
  const slots = data.slots.filter((slot) => (slot.set ??= new Set(ids(slot.members))).has(row)).map((slot) => slot.name);
  if (slots.length) {
    const more = slots.length > MOST_SLOTS ? `, and ${slots.length - MOST_SLOTS} more` : "";
    facts.push(["appears as", slots.slice(0, MOST_SLOTS).join(", ") + more]);
  }
  parent.append(
    element("h2", {}, written(label)),
    element("dl", {}, ...facts.flatMap(([what, value]) => [element("dt", {}, written(what)), element("dd", {}, written(value))])),
    element("h3", {}, "Nearest in this picture"),
    element("ul", { class: "near" }, ...picture.around(row).map((each) => {
      const onclick = () => choose(data.names[each]);
      return element("li", {}, element("button", { type: "button", onclick }, written(picture.name(each))));
    })),
  );
}
