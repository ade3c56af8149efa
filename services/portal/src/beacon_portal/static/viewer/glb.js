// A preview of a GLB file: its first mesh with flat light, turned by drag or arrow keys. Loaded only when needed.

const MAGIC = 0x46546c67;
const COMPONENTS = { 5121: Uint8Array, 5123: Uint16Array, 5125: Uint32Array, 5126: Float32Array };
const SIZES = { SCALAR: 1, VEC2: 2, VEC3: 3, VEC4: 4 };
const VERTEX = `attribute vec3 position; uniform mat4 turn; varying vec3 place;
void main() { vec4 at = turn * vec4(position, 1.0); place = at.xyz; gl_Position = vec4(at.xy, at.z * -0.3, 1.0 - at.z * 0.25); }`;
const FRAGMENT = `#extension GL_OES_standard_derivatives : enable
precision mediump float; varying vec3 place; uniform vec3 colour;
void main() {
  vec3 normal = normalize(cross(dFdx(place), dFdy(place)));
  float light = 0.35 + 0.65 * abs(dot(normal, normalize(vec3(0.4, 0.7, 0.9))));
  gl_FragColor = vec4(colour * light, 1.0);
}`;

const MAX_CONTEXTS = 12; // browsers drop the oldest of 16
let contexts = [];

/** Draw the model; false where the file or the browser does not allow it. */
export function showModel(canvas, buffer) {
  for (const { canvas: old, gl } of contexts) if (!old.isConnected) gl.getExtension("WEBGL_lose_context")?.loseContext();
  contexts = contexts.filter(({ canvas: old }) => old.isConnected);
  const mesh = contexts.length < MAX_CONTEXTS ? readMesh(buffer) : null;
  const gl = canvas.getContext("webgl", { antialias: true, alpha: true });
  if (!mesh || !gl?.getExtension("OES_standard_derivatives")) return false;
  const draw = prepare(gl, mesh);
  let [around, above] = [0.6, 0.35];
  const turn = (dx, dy) => { around += dx; above = Math.max(-1.5, Math.min(1.5, above + dy)); draw(around, above); };
  canvas.tabIndex = 0;
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", ({ buttons, movementX, movementY }) => { if (buttons) turn(movementX / 100, movementY / 100); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] }[event.key];
    if (!step) return;
    event.preventDefault();
    turn(step[0], step[1]);
  });
  contexts.push({ canvas, gl });
  turn(0, 0);
  return true;
}

/** Points, indices and colour of the first triangles in a GLB file; null where there are none. */
export function readMesh(buffer) {
  try {
    const view = new DataView(buffer);
    if (view.getUint32(0, true) !== MAGIC) return null;
    const jsonSize = view.getUint32(12, true);
    const document = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 20, jsonSize)));
    const primitive = document.meshes[0].primitives[0];
    const read = (index) => accessor(document, buffer, 28 + jsonSize, index);
    const positions = read(primitive.attributes.POSITION);
    const indices = primitive.indices === undefined ? Uint32Array.from({ length: positions.length / 3 }, (_, index) => index) : read(primitive.indices);
    const colour = document.materials?.[primitive.material]?.pbrMetallicRoughness?.baseColorFactor ?? [0.6, 0.65, 0.75];
    return { positions: centred(positions), indices: Uint32Array.from(indices), colour: colour.slice(0, 3) };
  } catch {
    return null; // compressed, sparse or damaged
  }
}

function accessor({ accessors, bufferViews }, buffer, start, index) {
  const { bufferView, byteOffset = 0, componentType, count, type } = accessors[index];
  const { byteOffset: offset = 0, byteStride } = bufferViews[bufferView];
  const Component = COMPONENTS[componentType];
  const width = SIZES[type];
  const size = width * Component.BYTES_PER_ELEMENT;
  const from = start + offset + byteOffset;
  const packed = new Uint8Array(count * size);
  for (let item = 0; item < count; item += 1) packed.set(new Uint8Array(buffer, from + item * (byteStride ?? size), size), item * size);
  return new Component(packed.buffer);
}

/** Moved to the origin and scaled to a size of 1. */
function centred(positions) {
  const low = [Infinity, Infinity, Infinity];
  const high = [-Infinity, -Infinity, -Infinity];
  positions.forEach((value, index) => {
    low[index % 3] = Math.min(low[index % 3], value);
    high[index % 3] = Math.max(high[index % 3], value);
  });
  const scale = 1.1 / Math.max(...high.map((value, axis) => value - low[axis]), 1e-9);
  return positions.map((value, index) => (value - (low[index % 3] + high[index % 3]) / 2) * scale);
}

function prepare(gl, { positions, indices, colour }) {
  gl.getExtension("OES_element_index_uint");
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.bindAttribLocation(program, 0, "position");
  gl.linkProgram(program);
  gl.useProgram(program);
  for (const [target, data] of [[gl.ARRAY_BUFFER, positions], [gl.ELEMENT_ARRAY_BUFFER, indices]]) {
    gl.bindBuffer(target, gl.createBuffer());
    gl.bufferData(target, data, gl.STATIC_DRAW);
  }
  gl.enableVertexAttribArray(0);
  gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 0, 0);
  gl.enable(gl.DEPTH_TEST);
  gl.uniform3fv(gl.getUniformLocation(program, "colour"), colour);
  const turn = gl.getUniformLocation(program, "turn");
  const narrow = gl.drawingBufferHeight / gl.drawingBufferWidth;
  return (around, above) => {
    const [c, s, d, t] = [Math.cos(around), Math.sin(around), Math.cos(above), Math.sin(above)];
    const rows = [c * narrow, t * s, -d * s, 0, 0, d, t, 0, s * narrow, -t * c, d * c, 0, 0, 0, 0, 1];
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix4fv(turn, false, rows);
    gl.drawElements(gl.TRIANGLES, indices.length, gl.UNSIGNED_INT, 0);
  };
}
