// What the page holds in compressed form, and what scripts beside it hold.

async function unpacked(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

async function loadLibrary() {
  const element = document.createElement("script");
  element.textContent = await (await unpacked(document.getElementById("library").textContent)).text();
  document.head.append(element);
  return globalThis.Plotly;
}

// A page that is opened as a file may read nothing beside it, but may run a script, which hands
// over what it holds.
const expected = new Map();
globalThis.hand = (name, text) => expected.get(name)?.(text);

function textOf(folder, name) {
  return new Promise((resolve, reject) => {
    const element = document.createElement("script");
    const file = `${folder}/${name}.js`;
    const fail = () => reject(new Error(`${file} could not be read: keep it beside this page`));
    expected.set(name, resolve);
    element.src = file;
    element.onerror = fail;
    element.onload = fail; // comes after its text, unless the script holds something else
    document.head.append(element);
  }).finally(() => expected.delete(name));
}

// The columns of a file as one Float32Array; they come as planes of bytes, the highest first.
async function loadColumns(folder, name) {
  const packed = await unpacked(await textOf(folder, name));
  const planes = new Uint8Array(await packed.arrayBuffer());
  const length = planes.length / 4;
  const bits = new Uint32Array(length);
  for (let i = 0; i < length; i++) {
    bits[i] =
      (planes[i] << 24) |
      (planes[length + i] << 16) |
      (planes[2 * length + i] << 8) |
      planes[3 * length + i];
  }
  return new Float32Array(bits.buffer);
}
