// What the page holds in compressed form.

async function unpacked(id) {
  const text = document.getElementById(id).textContent;
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

async function loadLibrary() {
  const element = document.createElement("script");
  element.textContent = await (await unpacked("library")).text();
  document.head.append(element);
  return globalThis.Plotly;
}

// All columns as one Float32Array; they come as planes of bytes, the highest first.
async function loadColumns() {
  const planes = new Uint8Array(await (await unpacked("columns")).arrayBuffer());
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
