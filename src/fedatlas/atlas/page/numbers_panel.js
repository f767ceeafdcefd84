// The panel of the legend and numbers, which follows the figure and asks for changes of what is
// chosen.

// What statistics of a measurement need: how it is summed up, and Student's t.
function statisticsOf(atlas, measurement) {
  return { scale: atlas.measurements.get(measurement), quantiles: atlas.quantiles };
}

// What is said of costs where traces lack records. The share was measured on published traces.
const THINNED_COST =
  "Costs are read off straight lines between the records that this page keeps, so they may be some " +
  "10 % off those of whole traces (on a9a up to 13 %).";

function floorNote({ floor }) {
  const least = compact(floor);
  return (
    `≤ ${least}: there or below. The optimum f* is known no better than to ${least}, so values below it ` +
    "are not told apart. A mean over such seeds is an upper bound, too. In the CSV these values equal " +
    "final_floor; seeds_at_floor counts the seeds that end there."
  );
}

// chosen: returns what is chosen. change: changes it. copy: puts a text on the clipboard. Returns
// what shows the rows of entries, curves that are shown or hidden.
function numbersPanel(atlas, chosen, change, copy) {
  // The cost as Python names it. Rounds of parties that wait for nobody are their exchanges.
  function pythonCost() {
    const state = chosen();
    if (state.x === "round") return "exchanges";
    if (state.x !== NETWORK) return state.x;
    return `network(${NUMBERS.map((name) => `${name}=${compact(state[name])}`).join(", ")})`;
  }

  let numbers = { rows: [], target: "" };
  let about = new Map(); // a curve's name and what it was run with, by its key
  let pointedAt = null; // the curve that is told about last
  const howTo = byId("about").textContent;
  const tellAbout = () => (byId("about").textContent = about.get(pointedAt) ?? howTo);
  function show(entries) {
    const state = chosen();
    const statistics = statisticsOf(atlas, state.y);
    const { scale } = statistics;
    const isHidden = ({ key }) => state.hidden.has(key);
    const shown = entries.filter((entry) => !isHidden(entry));
    const target = state.target === "" ? proposedTarget(shown, scale) : state.target;
    const other = (point) =>
      state.x === NETWORK && point.ownLatency !== null && point.ownLatency !== state.latency;
    const asked = (point) => ({ ...state, target: other(point) ? "" : target });
    const rows = entries.map((entry) => {
      const { key, run, point, label, diverged, number } = entry;
      const hidden = isHidden(entry);
      return {
        ...(hidden ? {} : numbersOf(point, asked(point), state, statistics)),
        ...{ key, label, diverged, number, hidden, seeds: point.seeds },
        ...{ run: run.name, point: point.name, title: run.title, experiment: run.experiment.name },
        found: `${label} ${run.key} ${run.experiment.dataset}`,
      };
    });
    numbers = { rows, target };
    about = new Map(
      entries.map(({ key, label, seeds, hyperParameters }) => [
        key,
        `${label}: ${seeds}; ${hyperParameters}`,
      ]),
    );
    tellAbout(); // that curve may be gone
    byId("numbers").hidden = rows.length === 0;
    const input = byId("target");
    input.disabled = scale.best === null;
    if (document.activeElement !== input) input.value = target;
    renderRows();
  }

  function renderRows() {
    const state = chosen();
    const { rows, target } = numbers;
    const { scale } = statisticsOf(atlas, state.y);
    const words = byId("numbers-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => words.every((word) => row.found.toLowerCase().includes(word)));
    const cost = state.x === NETWORK ? "seconds" : atlas.costs.get(state.x);
    const centre = centreName(state.band, scale);
    const around = state.band === "interval" ? "its 95 % interval" : "range";
    const goal = target === "" ? "target" : `${scale.best === 1 ? "≥" : "≤"} ${compact(target)}`;
    const columns = [["run", "run"], ["final", `final ${centre}`], ["cost", `cost to ${goal}`], ["seeds", "seeds"]];
    const sorted = sortedRows(kept, state.sort);
    fillNumbers(byId("numbers-table"), sorted, columns, state.sort, themed().colours);
    const told = (numbers.told = sorted.filter((row) => !row.hidden));
    const many = kept.length < rows.length ? `${kept.length} of ${counted(rows.length, "row")}. ` : "";
    byId("numbers-about").textContent =
      `${many}Final: ${centre} and, in brackets, ${around} of seeds that did not ` +
      "diverge, at the last record. " +
      (scale.best === null
        ? "No value of this measurement is best, so there is no target."
        : `Cost, in ${cost}: geometric mean over the seeds that reached the target and its 95 % interval.` +
          (atlas.thinned ? ` ${THINNED_COST}` : ""));
    const cutOff = told.some(({ atFloor }) => atFloor > 0);
    byId("floor-note").hidden = !cutOff;
    byId("floor-note").textContent = cutOff ? floorNote(scale) : "";
    const all = state.points === "all";
    const line = pythonLine(atlas.name, told, state.y, pythonCost(), target, all);
    byId("python").firstElementChild.textContent =
      line === null ? "There is no such line without a target." : `import fedatlas\n${line}`;
    byId("copy-python").disabled = line === null;
  }

  byId("target").addEventListener("change", ({ target }) => {
    const { best, floor } = atlas.measurements.get(chosen().y);
    const value = target.valueAsNumber;
    const valid = best === 1 ? value < 1 : value > 0 && value >= floor;
    target.setAttribute("aria-invalid", String(!valid && target.value !== ""));
    if (valid || target.value === "") change({ target: valid ? value : "" }, { choice: false, claims: false });
    else byId("message").textContent = `A target must be ${best === 1 ? "below 1" : floor ? `${floor} or more` : "above 0"}.`;
  });
  byId("numbers-filter").addEventListener("input", renderRows);
  const pressed = ({ target }) => target.closest("button")?.dataset ?? {};
  byId("numbers-table").addEventListener("click", (event) => {
    const { sort: column, key } = pressed(event);
    if (column !== undefined) {
      const sort = chosen().sort === column ? `-${column}` : column;
      change({ sort }, { choice: false, figure: false, claims: false });
      renderRows();
    } else if (key !== undefined) {
      const hidden = new Set(chosen().hidden);
      if (!hidden.delete(key)) hidden.add(key);
      change({ hidden }, { choice: false, claims: false });
    }
  });
  for (const name of ["focusin", "mouseover"]) {
    byId("numbers-table").addEventListener(name, (event) => {
      const { key } = pressed(event);
      if (!about.has(key)) return;
      pointedAt = key;
      tellAbout();
    });
  }
  byId("save-numbers").addEventListener("click", () => {
    const text = numbersCsv(
      numbers.told,
      chosen().y,
      pythonCost(),
      numbers.target,
      atlas.measurements.get(chosen().y).floor,
    );
    const link = element("a", { download: "atlas.csv" });
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.click();
    URL.revokeObjectURL(link.href);
  });
  byId("copy-python").addEventListener("click", () => copy(byId("python").textContent, "Line"));
  return show;
}
