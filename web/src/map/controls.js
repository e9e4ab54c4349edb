// The pointer and the keys: drag or arrows turn, wheel, pinch or plus and minus zoom, shift and drag or two fingers move.

const TURN = 0.006; // radians for each pixel
const STEP = 0.12; // radians for each press of an arrow

export function control(picture, view, { redraw, hover, select, fly, clear, focusSearch }) {
  const { canvas } = picture;
  const down = new Map();
  let moved = 0;
  const local = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  canvas.addEventListener("pointerdown", (event) => {
    view.flight = null;
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, local(event));
    if (down.size === 1) moved = 0;
    hover(undefined);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = local(event);
    if (!down.has(event.pointerId)) {
      if (event.pointerType === "mouse") hover(picture.pick(x, y));
      return;
    }
    const before = [...down.values()];
    const [u, v] = down.get(event.pointerId);
    down.set(event.pointerId, [x, y]);
    moved += Math.abs(x - u) + Math.abs(y - v);
    if (down.size > 1) pinch(view, before, [...down.values()], picture.height);
    else if (event.shiftKey || event.buttons & 2) view.pan((x - u) / picture.height, (y - v) / picture.height);
    else view.turn((x - u) * TURN, (y - v) * TURN);
    redraw();
  });
  const up = (event) => {
    const tap = event.type === "pointerup" && down.size === 1 && moved < 6;
    down.delete(event.pointerId);
    if (tap) select(picture.pick(...local(event), event.pointerType === "mouse" ? 10 : 22));
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => down.size || hover(undefined));
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", (event) => fly(picture.pick(...local(event))));
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      view.flight = null;
      view.zoom(Math.exp(Math.max(-80, Math.min(80, event.deltaY)) * (event.deltaMode ? 0.04 : 0.002)));
      redraw();
    },
    { passive: false },
  );
}

function pinch(view, before, after, height) {
  const apart = ([one, other]) => Math.hypot(one[0] - other[0], one[1] - other[1]);
  const middle = ([one, other], part) => (one[part] + other[part]) / 2;
  view.zoom(Math.max(1, apart(before)) / Math.max(1, apart(after)));
  view.pan((middle(after, 0) - middle(before, 0)) / height, (middle(after, 1) - middle(before, 1)) / height);
}

export function keys(view, { redraw, clear, reset, focusSearch }) {
  const turns = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest?.("input, select, textarea, [role=listbox]");
    if (event.key === "Escape") clear();
    else if (typing) return;
    else if (event.key === "/") focusSearch();
    else if (event.key in turns) view.turn(...turns[event.key]);
    else if (event.key === "+" || event.key === "=") view.zoom(1 / 1.2);
    else if (event.key === "-" || event.key === "_") view.zoom(1.2);
    else if (event.key === "0" || event.key === "Home") reset();
    else return;
    view.flight = event.key === "Escape" ? view.flight : null;
    if (event.key !== "Escape") event.preventDefault();
    redraw();
  });
}
