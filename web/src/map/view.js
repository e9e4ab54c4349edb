// Where one looks from. All pictures of a page share one view, so that they turn together.
import { PerspectiveCamera, Quaternion, Vector3 } from "three";

const ANGLE = 40; // degrees that the shorter side of a picture sees
const [NEAREST, FARTHEST, START] = [0.06, 12, 3.4];
const X = new Vector3(1, 0, 0);
const Y = new Vector3(0, 1, 0);

export class View {
  constructor() {
    this.reset();
  }

  reset() {
    // A little from above and from the side: straight on, the third dimension would not show.
    this.rotation = new Quaternion().setFromAxisAngle(X, 0.35).multiply(new Quaternion().setFromAxisAngle(Y, -0.5));
    this.target = new Vector3();
    this.distance = START;
  }

  turn(right, down) {
    const more = new Quaternion().setFromAxisAngle(Y, right).multiply(new Quaternion().setFromAxisAngle(X, down));
    this.rotation.premultiply(more).normalize();
  }

  zoom(factor) {
    this.distance = Math.min(FARTHEST, Math.max(NEAREST, this.distance * factor));
  }

  // Move what is seen by so many heights of the picture.
  pan(right, down) {
    const size = 2 * this.distance * Math.tan((ANGLE / 2) * (Math.PI / 180));
    const move = new Vector3(-right * size, down * size, 0).applyQuaternion(this.rotation.clone().invert());
    this.target.add(move);
  }

  camera(aspect) {
    const half = Math.tan((ANGLE / 2) * (Math.PI / 180)) / Math.min(1, aspect);
    const camera = new PerspectiveCamera((2 * Math.atan(half) * 180) / Math.PI, aspect, this.distance / 50, 40);
    camera.position.z = this.distance;
    return camera;
  }

  // Where the cloud of points lies before the camera.
  place(object) {
    object.quaternion.copy(this.rotation);
    object.position.copy(this.target).negate().applyQuaternion(this.rotation);
    object.updateMatrixWorld(true);
    return object;
  }
}

// Fly to a view in a moment; at once for those who want no motion.
export function fly(view, target, distance, redraw) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const [from, far, begun] = [view.target.clone(), view.distance, performance.now()];
  const mine = (view.flight = {});
  const step = () => {
    if (view.flight !== mine) return;
    const t = still ? 1 : Math.min(1, (performance.now() - begun) / 450);
    const eased = t * t * (3 - 2 * t);
    view.target.lerpVectors(from, target, eased);
    view.distance = far * (distance / far) ** eased;
    redraw();
    if (t < 1) requestAnimationFrame(step);
  };
  step();
}
