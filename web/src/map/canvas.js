// Points without a graphics card: each is a small square, and a table of depths says which of two is seen.

export const FULL = 32767; // the coordinate that is written for a distance of one

// Call use(row, x, y, depth) for every point before the camera, with its place in pixels.
export function project(points, matrix, width, height, use) {
  const m = matrix.elements;
  for (let row = 0, at = 0; at < points.length; row++, at += 3) {
    const [x, y, z] = [points[at] / FULL, points[at + 1] / FULL, points[at + 2] / FULL];
    const w = m[3] * x + m[7] * y + m[11] * z + m[15];
    if (w <= 0.01) continue;
    const right = (m[0] * x + m[4] * y + m[8] * z + m[12]) / w;
    const up = (m[1] * x + m[5] * y + m[9] * z + m[13]) / w;
    use(row, ((right + 1) / 2) * width, ((1 - up) / 2) * height, w);
  }
}

export class CanvasSurface {
  constructor(canvas, points, axes) {
    this.canvas = canvas;
    this.ends = axes.flatMap((axis) => [...axis.map((x) => -x * FULL), ...axis.map((x) => x * FULL)]);
    this.points = points;
    this.context = canvas.getContext("2d");
    this.colours = new Uint8Array(points.length);
    this.emphasis = new Uint8Array(points.length / 3);
  }

  resize(width, height) {
    [this.canvas.width, this.canvas.height] = [width, height].map((size) => Math.max(1, Math.round(size)));
    this.image = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.depths = new Float32Array(this.canvas.width * this.canvas.height);
  }

  paint(colours, emphasis) {
    this.colours.set(colours);
    this.emphasis.set(emphasis);
  }

  draw(view, camera, theme, size, matrix) {
    const { width, height } = this.canvas;
    const { data } = this.image;
    const { depths, colours, emphasis } = this;
    data.fill(0);
    depths.fill(Infinity);
    project(this.points, matrix, width, height, (row, x, y, depth) => {
      const strong = emphasis[row];
      const nearness = Math.min(3, Math.max(0.5, view.distance / depth));
      const side = Math.max(1, Math.round(size * (0.6 + 0.4 * strong) * nearness));
      const order = depth + (1 - strong) * 100;
      const far = strong > 1 ? 0 : 0.55 * Math.min(1, Math.max(0, (depth - view.distance + 1) / 2));
      const [left, top] = [Math.round(x - side / 2), Math.round(y - side / 2)];
      for (let v = Math.max(0, top); v < Math.min(height, top + side); v++) {
        for (let u = Math.max(0, left); u < Math.min(width, left + side); u++) {
          const at = v * width + u;
          if (order >= depths[at]) continue;
          depths[at] = order;
          for (let part = 0; part < 3; part++) {
            data[4 * at + part] = colours[3 * row + part] * (1 - far) + theme.background[part] * far;
          }
          data[4 * at + 3] = 255;
        }
      }
    });
    this.context.putImageData(this.image, 0, 0);
    this.drawAxes(theme, matrix);
  }

  // Behind the points; one of which an end lies behind the eye is left out.
  drawAxes(theme, matrix) {
    const { context, canvas } = this;
    const ends = [];
    project(this.ends, matrix, canvas.width, canvas.height, (end, x, y) => (ends[end] = [x, y]));
    context.globalCompositeOperation = "destination-over";
    context.strokeStyle = `rgb(${theme.axis.join(" ")})`;
    context.beginPath();
    for (let end = 0; end < this.ends.length / 3; end += 2) {
      if (!ends[end] || !ends[end + 1]) continue;
      context.moveTo(...ends[end]);
      context.lineTo(...ends[end + 1]);
    }
    context.stroke();
    context.globalCompositeOperation = "source-over";
  }
}
