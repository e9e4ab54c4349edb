// Points by the graphics card: one buffer, one call.
import {
  BufferAttribute,
  BufferGeometry,
  Color,
  LineBasicMaterial,
  LineSegments,
  Points,
  Scene,
  ShaderMaterial,
  WebGLRenderer,
} from "three";
import { FULL } from "./canvas.js";

const VERTEX = `
attribute vec3 tint;
attribute float emphasis;
uniform float size, distance;
uniform vec3 background;
varying vec3 shade;
void main() {
  vec4 seen = modelViewMatrix * vec4(position / ${FULL}.0, 1.0);
  gl_Position = projectionMatrix * seen;
  // What is chosen lies before all else, what is not behind it.
  gl_Position.z += (1.0 - emphasis) * 0.4 * gl_Position.w * (1.0 - abs(gl_Position.z / gl_Position.w));
  gl_PointSize = max(1.0, size * (0.6 + 0.4 * emphasis) * clamp(distance / -seen.z, 0.5, 3.0));
  float depth = clamp((-seen.z - distance + 1.0) / 2.0, 0.0, 1.0);
  shade = mix(tint, background, 0.55 * depth * step(emphasis, 1.5));
}`;

const FRAGMENT = `
varying vec3 shade;
void main() {
  vec2 place = gl_PointCoord - 0.5;
  if (dot(place, place) > 0.25) discard;
  gl_FragColor = vec4(shade, 1.0);
}`;

export class WebGLSurface {
  constructor(canvas, points, axes) {
    this.renderer = new WebGLRenderer({ canvas, antialias: false, alpha: true });
    this.scene = new Scene();
    const count = points.length / 3;
    this.geometry = new BufferGeometry();
    this.geometry.setAttribute("position", new BufferAttribute(points, 3));
    this.geometry.setAttribute("tint", new BufferAttribute(new Uint8Array(count * 3), 3, true));
    this.geometry.setAttribute("emphasis", new BufferAttribute(new Uint8Array(count), 1));
    this.uniforms = { size: { value: 1 }, distance: { value: 1 }, background: { value: new Color() } };
    this.material = new ShaderMaterial({ vertexShader: VERTEX, fragmentShader: FRAGMENT, uniforms: this.uniforms });
    this.cloud = new Points(this.geometry, this.material);
    const lines = new BufferGeometry();
    const ends = axes.flatMap((axis) => [...axis.map((x) => -x), ...axis]);
    lines.setAttribute("position", new BufferAttribute(new Float32Array(ends), 3));
    this.axes = new LineSegments(lines, new LineBasicMaterial());
    for (const each of [this.cloud, this.axes]) {
      each.frustumCulled = false;
      this.scene.add(each);
    }
  }

  resize(width, height, ratio) {
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.ratio = ratio;
  }

  paint(colours, emphasis) {
    this.geometry.attributes.tint.array.set(colours);
    this.geometry.attributes.emphasis.array.set(emphasis);
    this.geometry.attributes.tint.needsUpdate = this.geometry.attributes.emphasis.needsUpdate = true;
  }

  draw(view, camera, theme, size) {
    this.uniforms.size.value = size * this.ratio;
    this.uniforms.distance.value = view.distance;
    this.uniforms.background.value.setRGB(...theme.background.map((part) => part / 255));
    this.axes.material.color.setRGB(...theme.axis.map((part) => part / 255));
    view.place(this.cloud);
    view.place(this.axes);
    this.renderer.render(this.scene, camera);
  }
}
