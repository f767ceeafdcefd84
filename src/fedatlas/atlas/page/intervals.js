// Effects drawn small, as evaluation/interval_drawing.py draws them, which places their parts.

function svgElement(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    // Sums of decimal fractions carry rounding errors.
    made.setAttribute(name, typeof value === "number" ? tenths(value) : value);
  }
  made.append(...children);
  return made;
}

function tenths(value) {
  return +value.toFixed(1);
}

function intervalDrawing({ band, bar, beyond, dot, mark, words }, { width, height, ticks }) {
  const middle = height / 2;
  const line = (name, x1, y1, x2, y2) => svgElement("line", { class: name, x1, y1, x2, y2 });
  const shape = (name, corners) =>
    svgElement("polygon", { class: name, points: corners.map((corner) => corner.map(tenths).join()).join(" ") });
  const ends = [0, 1].map((side) => {
    const [end, away] = [bar[side], side ? 1 : -1];
    if (!beyond[side]) return line("bar", end, middle - 5, end, middle + 5);
    const root = end - 2 * away;
    return shape("arrow", [[root, middle - 4], [end + 5 * away, middle], [root, middle + 4]]);
  });
  const region = [];
  if (band !== null) {
    const sides = { x: band[0], y: 2, width: band[1] - band[0], height: height - 4 };
    region.push(svgElement("rect", { class: "band", ...sides }));
    region.push(...ticks.map((x) => line("tick", x, height - 5, x, height - 1)));
  }
  const rest = [];
  if (mark !== null) rest.push(shape("mark", [[mark - 4, 1], [mark, 8], [mark + 4, 1]]));
  if (dot !== null) rest.push(svgElement("circle", { class: "dot", cx: dot, cy: middle, r: 2.7 }));
  const size = { viewBox: `0 0 ${width} ${height}`, width, height };
  return svgElement(
    "svg",
    { class: "interval", ...size, role: "img", "aria-label": words },
    svgElement("title", {}, words),
    ...region,
    line("zero", width / 2, 0, width / 2, height),
    line("bar", bar[0], middle, bar[1], middle),
    ...ends,
    ...rest,
  );
}

// What ticks of drawings mean, once for a list of them.
function intervalScale({ width, ticks, multiples }) {
  const text = (x, y, anchor, words) => svgElement("text", { x, y, "text-anchor": anchor }, words);
  const line = (x1, y1, x2, y2) => svgElement("line", { x1, y1, x2, y2 });
  // Ticks of the left side come first.
  const numbers = ticks.map((x, i) =>
    text(x, 11, "middle", `${i < multiples.length ? "−" : ""}${multiples[i % multiples.length]}`),
  );
  const words =
    `Scale of the drawings, in multiples of the smallest effect that counts: ${multiples.join(" and ")} ` +
    "times to either side of no difference; against the claim on the left, in favour of it on the right";
  return svgElement(
    "svg",
    { class: "scale", viewBox: `0 0 ${width} 36`, width, height: 36, role: "img", "aria-label": words },
    line(0, 18, width, 18),
    ...[...ticks, width / 2].map((x) => line(x, 14, x, 22)),
    ...numbers,
    text(width / 2, 11, "middle", "0"),
    text(0, 34, "start", "← against the claim"),
    text(width, 34, "end", "for it →"),
  );
}
