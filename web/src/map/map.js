// The map: pictures of entity vectors that turn together, with a search, colours, and an entity that is selected in all.
import { control, keys } from "./controls.js";
import { pictureOf } from "./data.js";
import { details, element, legend, searchBox, wayChoice } from "./panel.js";
import { Picture } from "./picture.js";
import { Index } from "./search.js";
import { fly, View } from "./view.js";

const CLOSE = 0.9; // from where an entity that was searched for is looked at

function start() {
  const written = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("map");
  const view = new View();
  const stages = element("div", { class: "stages" });
  const pictures = [];
  for (const each of written.pictures) pictures.push(new Picture(stages, pictureOf(each, pictures[0]?.data), view));
  const state = { way: "cluster", selected: null };

  let waiting = false;
  const draw = () => {
    waiting = false;
    for (const picture of pictures) picture.draw();
  };
  const redraw = () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };
  const paint = () => {
    for (const picture of pictures) picture.paint(state.way);
    redraw();
  };

  const hover = (picture, row) => {
    const name = row === undefined ? undefined : picture.data.names[row];
    for (const each of pictures) each.showTip(name === undefined ? undefined : each.data.rows.get(name));
    picture.canvas.style.cursor = name === undefined ? "" : "pointer";
  };
  const select = (name) => {
    state.selected = name ?? null;
    for (const picture of pictures) picture.selected = name === undefined ? undefined : picture.data.rows.get(name);
    const home = pictures.find((picture) => picture.selected !== undefined) ?? pictures[0];
    details(about, home, home.selected, visit);
    redraw();
  };
  const visit = (name) => {
    select(name);
    const picture = pictures.find((each) => each.selected !== undefined);
    if (picture) fly(view, picture.place(picture.selected), Math.min(view.distance, CLOSE), redraw);
  };
  const choose = (chosen) => {
    pictures.forEach((picture, place) => (picture.chosen = chosen(picture, place)));
    paint();
  };
  const focusOn = (home, key) => {
    choose((picture) => {
      if (!key) return null;
      // The same entities in the other picture, whatever they are called there.
      return picture === home ? key.has : (row) => key.has(home.data.rows.get(picture.data.names[row]));
    });
  };
  const clear = () => {
    search.clear();
    for (const each of document.querySelectorAll(".key[aria-pressed=true]")) each.setAttribute("aria-pressed", "false");
    hover(pictures[0], undefined);
    select(undefined);
    choose(() => null);
  };
  const reset = () => (view.reset(), redraw());

  const index = new Index(pictures.map((picture) => picture.data));
  const search = searchBox(index, {
    choose: visit,
    matched: (names) => {
      const wanted = names && new Set(names);
      choose((picture) => wanted && ((row) => wanted.has(picture.data.names[row])));
    },
  });
  const way = wayChoice(pictures.map((picture) => picture.data), (chosen) => {
    state.way = chosen;
    choose(() => null);
    legend(meanings, pictures, focusOn);
  });
  const about = element("section", { class: "details", "aria-live": "polite", hidden: "" });
  const meanings = element("section", { class: "legend", "aria-label": "What the colours mean" });
  const help = element("p", { class: "help" },
    "Drag or arrow keys turn, wheel or + and − zoom, shift and drag move, 0 looks from the start, / searches, Esc clears.");
  const side = element("details", { class: "side", open: "" }, element("summary", {}, "Legend"), about, meanings, help);
  root.append(element("div", { class: "bar" }, search.element, way.element), stages, side);
  if (pictures.length > 1) stages.classList.add("several");
  if (innerWidth < 700) side.open = false;

  for (const picture of pictures) {
    picture.redraw = redraw;
    const tapped = (row) => select(row === undefined ? undefined : picture.data.names[row]);
    const flown = (row) => row !== undefined && visit(picture.data.names[row]);
    control(picture, view, { redraw, hover: (row) => hover(picture, row), select: tapped, fly: flown });
    new ResizeObserver(() => {
      picture.resize();
      draw();
    }).observe(picture.stage);
    picture.resize();
  }
  keys(view, { redraw, clear, reset, focusSearch: search.focus });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  paint();
  legend(meanings, pictures, focusOn);
  draw();
  // For the console, and for programs that drive the page.
  globalThis.procrustesMap = { pictures, view, draw, redraw, visit, clear, state };
}

start();
