// Sentences with their outcomes, and their cases below them.

// Those that the filters leave; `isShown`: whether curves of an experiment are shown.
function filteredClaims(claims, { outcome, question, paper, shown }, isShown) {
  return claims.filter(
    (claim) =>
      (!outcome || claim.outcome === outcome) &&
      (!question || claim.question === question) &&
      (!paper || claim.paper === paper) &&
      (shown === "0" || isShown(claim.experiment)),
  );
}

// The sentences of papers and our own questions are counted apart.
function claimsCount(claims, all, outcomes) {
  const told = Object.entries(QUESTIONS).flatMap(([question, whose]) => {
    const asked = claims.filter((claim) => claim.question === question);
    const total = all.filter((claim) => claim.question === question).length;
    const counts = outcomes
      .map(({ name }) => [asked.filter((claim) => claim.outcome === name).length, name])
      .filter(([count]) => count > 0)
      .map((pair) => pair.join(" "));
    return total ? [`${asked.length} of ${total} ${whose}: ${counts.join(", ") || "none"}`] : [];
  });
  return told.join("; ");
}

function fillOutcomes(list, outcomes) {
  list.replaceChildren(
    ...outcomes.flatMap(({ name, meaning, mark }) => [
      element("dt", { className: className(name) }, `${mark} ${name}`),
      element("dd", {}, meaning),
    ]),
  );
}

function className(outcome) {
  return outcome.replaceAll(" ", "-");
}

// What is told of a sentence and of a case alike, below its name.
function toldVerdict(verdict, intervals) {
  const evidence = element("p", { className: "evidence" }, verdict.evidence);
  return verdict.drawing ? [intervalDrawing(verdict.drawing, intervals), evidence] : [evidence];
}

function outcomeCell(verdict, marks) {
  const notes = [verdict.decides, verdict.fragile && `fragile: ${verdict.fragile}`].filter(Boolean);
  return element(
    "td",
    { className: `outcome ${className(verdict.outcome)}` },
    `${marks.get(verdict.outcome)} ${verdict.outcome}`,
    ...notes.map((note) => element("p", { className: "note" }, note)),
  );
}

function casesTable(cases, { marks, intervals }) {
  const rows = cases.map((found) => {
    const name = element("span", { className: "case" }, found.case);
    const about = element("td", {}, name, ...toldVerdict(found, intervals));
    return element("tr", {}, about, outcomeCell(found, marks));
  });
  return element("table", {}, element("tbody", {}, ...rows));
}

function claimRows(claim, hasCurves, { marks, intervals }) {
  const statement = hasCurves
    ? element("button", { type: "button" }, claim.statement)
    : element("span", {}, claim.statement);
  if (hasCurves) statement.dataset.experiment = claim.experiment;
  const details = [claim.claim.slice(claim.experiment.length + 1), claim.source].filter(Boolean);
  if (claim.question === "ours") details.push("our own question");
  const about = [statement, element("p", { className: "source" }, details.join(" · "))];
  const row = element(
    "tr",
    {},
    element("td", {}, ...about, ...toldVerdict(claim, intervals)),
    outcomeCell(claim, marks),
  );
  if (!claim.cases.length) return [row];
  row.className = "has-cases";
  const summary = element("summary", {}, counted(claim.cases.length, "case"));
  const folded = element("details", {}, summary);
  // Thousands of cases are made when a reader asks for them.
  const unfold = () => folded.append(casesTable(claim.cases, { marks, intervals }));
  folded.addEventListener("toggle", unfold, { once: true });
  return [row, element("tr", { className: "cases" }, element("td", { colSpan: 2 }, folded))];
}

// One table body per experiment, headed by its name.
function fillClaims(table, claims, isDrawable, shown) {
  for (const body of [...table.tBodies]) body.remove();
  for (const name of new Set(claims.map((claim) => claim.experiment))) {
    const has = isDrawable(name);
    const heading = has ? name : `${name} (no curves in this page)`;
    const own = claims.filter((claim) => claim.experiment === name);
    table.append(
      element(
        "tbody",
        {},
        element("tr", {}, element("th", { colSpan: 2, scope: "rowgroup" }, heading)),
        ...own.flatMap((claim) => claimRows(claim, has, shown)),
      ),
    );
  }
}
