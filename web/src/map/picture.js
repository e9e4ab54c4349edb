// One picture: the points of one run, their labels, and what lies under the pointer.
import { Matrix4, Vector3 } from "three";
import { CanvasSurface, FULL, project } from "./canvas.js";
import { colouring, css, themeOf } from "./colours.js";
import { WebGLSurface } from "./webgl.js";

const [NONE, DIM, STRONG] = [1, 0, 2]; // what an emphasis says: as all, behind the chosen, chosen
const MOST_LABELS = 40;
const MOST_IN_SOFTWARE = 20000; // points
const NO_WEBGL = "This browser has no WebGL, so the points are drawn without the graphics card, as squares.";
const IN_SOFTWARE = "This browser uses no graphics card, so the points are drawn as squares, which is faster without one.";

function isSoftware(context) {
  const names = context.getExtension("WEBGL_debug_renderer_info");
  const name = context.getParameter(names ? names.UNMASKED_RENDERER_WEBGL : context.RENDERER);
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

function made(parent, kind, name) {
  const element = parent.appendChild(document.createElement(kind));
  element.className = name;
  return element;
}

export class Picture {
  constructor(parent, data, view) {
    Object.assign(this, { data, view, element: made(parent, "section", "picture"), chosen: null });
    const heading = made(this.element, "h2", "title");
    made(heading, "bdi", "").textContent = data.title;
    made(heading, "span", "about").textContent = data.about;
    this.stage = made(this.element, "div", "stage");
    this.tags = [];
    this.tip = made(this.stage, "div", "tip");
    this.tip.hidden = true;
    this.ring = made(this.stage, "div", "ring");
    this.ring.hidden = true;
    this.makeSurface();
    for (const note of data.notes) made(this.element, "p", "note").textContent = note;
    if (this.problem) made(this.element, "p", "note").textContent = this.problem;
    this.reach = this.labelled();
  }

  makeSurface() {
    const start = () => {
      this.canvas?.remove();
      this.canvas = made(this.stage, "canvas", "");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", `Points of ${this.data.title}. Arrow keys turn it, plus and minus zoom.`);
    };
    start();
    try {
      const context = document.createElement("canvas").getContext("webgl2");
      if (!context) throw new Error(NO_WEBGL);
      // A processor that plays graphics card is slower at it than at drawing squares.
      if (this.data.names.length > MOST_IN_SOFTWARE && isSoftware(context)) throw new Error(IN_SOFTWARE);
      this.surface = new WebGLSurface(this.canvas, this.data.points, this.data.axes);
      this.canvas.addEventListener("webglcontextrestored", () => this.redraw?.());
    } catch (error) {
      start(); // a canvas that was asked for one kind of context gives no other
      this.surface = new CanvasSurface(this.canvas, this.data.points, this.data.axes);
      this.problem = error.message === IN_SOFTWARE ? IN_SOFTWARE : NO_WEBGL;
    }
  }

  // The tags in the picture: the clusters, at the middle of their points, and the ends of the axes.
  labelled() {
    const { clusters, cluster, points, axes, shares, axis } = this.data;
    const sums = clusters.map(() => [0, 0, 0, 0]);
    cluster.forEach((index, row) => {
      if (index < 0) return;
      for (let part = 0; part < 3; part++) sums[index][part] += points[3 * row + part] / FULL;
      sums[index][3]++;
    });
    const places = sums.slice(0, MOST_LABELS).map(([x, y, z, count]) => new Vector3(x, y, z).divideScalar(count || 1));
    places.forEach((place, index) => this.tag(place, clusters[index].name, "tag", clusters[index].colour));
    axes.forEach((end, index) => {
      const share = shares.length ? ` ${(100 * shares[index]).toFixed(1)} %` : "";
      this.tag(new Vector3(...end), `${axis} ${index + 1}${share}`, "axis");
    });
    return places;
  }

  tag(place, text, kind, colour) {
    const element = made(this.stage, "span", kind);
    element.textContent = text;
    if (colour) element.style.setProperty("--tag", css(colour));
    this.tags.push({ place, element });
  }

  name(row) {
    return this.data.labels?.[row] ?? this.data.names[row];
  }

  resize() {
    const { width, height } = this.stage.getBoundingClientRect();
    [this.width, this.height] = [Math.max(1, width), Math.max(1, height)];
    this.surface.resize(this.width, this.height, Math.min(2, devicePixelRatio));
  }

  // Colour all points; `chosen` says of a row whether it is meant, null that none is chosen.
  paint(way) {
    const { of, keys, ahead } = colouring(this.data, way);
    const { plain, background } = (this.theme = themeOf(this.element));
    const count = this.data.names.length;
    const [colours, emphasis] = [new Uint8Array(3 * count), new Uint8Array(count).fill(NONE)];
    for (let row = 0; row < count; row++) {
      const colour = of(row);
      const dim = this.chosen && !this.chosen(row);
      if (this.chosen) emphasis[row] = dim ? DIM : STRONG;
      else if (ahead) emphasis[row] = colour ? STRONG : DIM;
      for (let part = 0; part < 3; part++) {
        const full = (colour ?? plain)[part];
        colours[3 * row + part] = dim ? background[part] + (full - background[part]) * 0.25 : full;
      }
    }
    this.surface.paint(colours, emphasis);
    this.keys = keys;
  }

  draw() {
    const camera = this.view.camera(this.width / this.height);
    const size = this.pointSize();
    this.matrix = this.seen(camera);
    this.surface.draw(this.view, camera, this.theme, size, this.matrix);
    this.placeTags();
    this.placeRing();
  }

  // Fewer points, or a larger picture, make larger points.
  pointSize() {
    const room = Math.sqrt((this.width * this.height) / Math.max(1, this.data.names.length));
    return Math.min(12, Math.max(2, room / 1.7));
  }

  seen(camera) {
    camera.updateMatrixWorld(true);
    const { rotation, target } = this.view;
    const place = new Matrix4().makeRotationFromQuaternion(rotation);
    place.setPosition(target.clone().negate().applyQuaternion(rotation));
    return new Matrix4().multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse).multiply(place);
  }

  at(place) {
    const point = place.clone().applyMatrix4(this.matrix);
    const shown = point.z < 1 && Math.abs(point.x) < 1 && Math.abs(point.y) < 1;
    return { x: ((point.x + 1) / 2) * this.width, y: ((1 - point.y) / 2) * this.height, depth: point.z, shown };
  }

  place(row) {
    const { points } = this.data;
    return new Vector3(points[3 * row], points[3 * row + 1], points[3 * row + 2]).divideScalar(FULL);
  }

  placeTags() {
    const taken = [];
    const placed = this.tags.map(({ place, element }) => ({ element, ...this.at(place) }));
    for (const { element, x, y, shown } of placed.sort((one, other) => one.depth - other.depth)) {
      const free = shown && taken.every(([u, v]) => Math.abs(u - x) > 34 || Math.abs(v - y) > 16);
      element.hidden = !free;
      if (free) taken.push([x, y]);
      element.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
    }
  }

  placeRing() {
    const found = this.selected === undefined ? { shown: false } : this.at(this.place(this.selected));
    this.ring.hidden = !found.shown;
    if (found.shown) this.ring.style.transform = `translate(${found.x}px, ${found.y}px)`;
  }

  // The row of the point under a place, if one is near: of those nearly as near, the one in front.
  pick(x, y, reach = 10) {
    let [best, row] = [Infinity, undefined];
    project(this.data.points, this.matrix, this.width, this.height, (each, u, v, depth) => {
      const far = (u - x) ** 2 + (v - y) ** 2;
      if (far > reach * reach) return;
      const order = far + 20 * depth + (this.chosen && !this.chosen(each) ? 1000 : 0);
      if (order < best) [best, row] = [order, each];
    });
    return row;
  }

  showTip(row) {
    this.tip.hidden = row === undefined;
    if (row === undefined) return;
    this.tip.replaceChildren();
    made(this.tip, "bdi", "").textContent = this.name(row);
    const index = this.data.cluster[row];
    const cluster = index < 0 ? "" : `${this.data.clusters[index].name} · `;
    const degree = this.data.degrees[row].toLocaleString("en");
    made(this.tip, "span", "about").textContent = `${cluster}degree ${degree}`;
    const { x, y } = this.at(this.place(row));
    const [left, top] = [x > this.width / 2 ? x - this.tip.offsetWidth - 12 : x + 12, y > 70 ? y - 52 : y + 14];
    this.tip.style.transform = `translate(${Math.max(2, left)}px, ${top}px)`;
  }

  // The rows that lie nearest to one in the picture.
  around(row, count = 8) {
    const { points } = this.data;
    const near = [];
    for (let each = 0; each < points.length / 3; each++) {
      let far = 0;
      for (let part = 0; part < 3; part++) far += (points[3 * each + part] - points[3 * row + part]) ** 2;
      if (each === row || (near.length === count && far >= near[count - 1][0])) continue;
      near.push([far, each]);
      near.sort((one, other) => one[0] - other[0]);
      near.length = Math.min(near.length, count);
    }
    return near.map(([, each]) => each);
  }
}
