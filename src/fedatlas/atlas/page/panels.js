// What stands around the figure. Texts of traces and claims are set as text, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

// A checkbox with its label; `names`: what it stands for, for events.
function checkbox(id, label, data) {
  const input = element("input", { type: "checkbox", id });
  Object.assign(input.dataset, data);
  return [input, element("label", { htmlFor: id }, ...label)];
}

function buildTree(container, papers) {
  let number = 0;
  for (const paper of papers) {
    const list = element("ul", { className: "experiments" });
    const group = element("div", { className: "group" });
    group.append(
      element(
        "div",
        { className: "row paper" },
        ...checkbox(`tree-${number++}`, [paperTitle(paper.name)], { paper: paper.name }),
      ),
      list,
    );
    for (const experiment of paper.experiments) {
      const title = element("span", { className: "title" }, experiment.title);
      const only = element(
        "button",
        { type: "button", "aria-label": `Show only ${experiment.name}` },
        "only",
      );
      only.dataset.only = experiment.name;
      const runs = element("ul");
      for (const run of experiment.runs) {
        const item = element(
          "li",
          { className: "row" },
          ...checkbox(`tree-${number++}`, [run.title], { run: run.key }),
        );
        item.dataset.found = [run.title, run.name, run.points[0]?.algorithm].join(" ").toLowerCase();
        runs.append(item);
      }
      const item = element(
        "li",
        {},
        element(
          "div",
          { className: "row" },
          ...checkbox(`tree-${number++}`, [experiment.name, title], {
            experiment: experiment.name,
          }),
          only,
        ),
        element(
          "details",
          {},
          element("summary", {}, counted(experiment.runs.length, "run")),
          runs,
        ),
      );
      item.dataset.found = [paper.name, experiment.name, experiment.title, experiment.dataset]
        .join(" ")
        .toLowerCase();
      list.append(item);
    }
    container.append(group);
  }
}

// Show what has all words of the search: a whole experiment, or single runs of it.
function searchTree(container, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const group of container.querySelectorAll(".group")) {
    let some = false;
    for (const item of group.querySelectorAll(".experiments > li")) {
      const whole = words.every((word) => item.dataset.found.includes(word));
      let matches = 0;
      for (const run of item.querySelectorAll("li")) {
        const all = `${item.dataset.found} ${run.dataset.found}`;
        run.hidden = !whole && !words.every((word) => all.includes(word));
        matches += run.hidden ? 0 : 1;
      }
      item.hidden = words.length > 0 && !whole && matches === 0;
      if (words.length && !item.hidden) item.querySelector("details").open = !whole;
      some ||= !item.hidden;
      found += item.hidden ? 0 : matches;
    }
    group.hidden = !some;
  }
  return words.length ? `${counted(found, "run")} found` : "";
}

function tickTree(container, papers, chosen) {
  const tick = (input, runs) => {
    const on = runs.filter((run) => chosen.has(run.key)).length;
    input.checked = on > 0 && on === runs.length;
    input.indeterminate = on > 0 && on < runs.length;
  };
  const experiments = new Map(papers.flatMap((p) => p.experiments.map((e) => [e.name, e.runs])));
  const ofPaper = new Map(papers.map((p) => [p.name, p.experiments.flatMap((e) => e.runs)]));
  for (const input of container.querySelectorAll("input")) {
    const { paper, experiment, run } = input.dataset;
    if (run !== undefined) input.checked = chosen.has(run);
    else if (experiment !== undefined) tick(input, experiments.get(experiment));
    else tick(input, ofPaper.get(paper));
  }
}

// Options in two groups: what chosen runs have, and what they have not.
function fillOptions(select, names, present, words) {
  const signature = JSON.stringify([...names].map(([name]) => present.has(name)));
  if (select.dataset.signature === signature) return;
  select.dataset.signature = signature;
  const group = (label, wanted) => {
    const options = [...names]
      .filter(([name]) => present.has(name) === wanted)
      .map(([name, text]) => element("option", { value: name }, text));
    return options.length ? [element("optgroup", { label }, ...options)] : [];
  };
  select.replaceChildren(...group(words[0], true), ...group(words[1], false));
}

function swatch({ colour, swatch: dashes }) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("viewBox", "0 0 34 10");
  drawing.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(space, "line");
  const shape = { x1: 0, x2: 34, y1: 5, y2: 5, stroke: colour, "stroke-width": 3 };
  for (const [name, value] of Object.entries(shape)) line.setAttribute(name, value);
  line.setAttribute("stroke-dasharray", dashes);
  drawing.append(line);
  return drawing;
}

// A curve's name in the legend: a button, which a keyboard reaches, that hides or shows the curve.
function legendButton({ key, label, diverged, number, hidden }, colours) {
  const name = element("span", { className: "name" }, label);
  if (diverged) name.append(element("span", { className: "small" }, ` (${diverged})`));
  const drawn = swatch(styleOf(number, colours));
  const button = element("button", { type: "button", "aria-pressed": String(!hidden) }, drawn, name);
  button.dataset.key = key;
  return button;
}

function fillList(section, list, texts) {
  section.hidden = texts.length === 0;
  list.replaceChildren(...texts.map((text) => element("li", {}, text)));
}

function fillExperiments(section, list, experiments) {
  section.hidden = experiments.length === 0;
  list.replaceChildren(
    ...experiments.flatMap((experiment) => [
      element("dt", {}, experiment.title || experiment.name),
      element(
        "dd",
        {},
        [experiment.source, experiment.dataset && `data: ${experiment.dataset}`, experiment.notes]
          .filter(Boolean)
          .join(" · "),
      ),
    ]),
  );
}
