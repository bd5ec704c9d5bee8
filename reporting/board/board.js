// The page of a run store: table, one run, two runs against each other. Texts and names enter as text, never as HTML.
const board = { runs: new Map(), texts: new Map(), add(run) { this.runs.set(run.id, run); }, addTexts(name, texts) { this.texts.set(name, texts); } };
const byId = id => document.getElementById(id);
const DASH = "–", SHOWN_TEXTS = 100, MOST_CLASSES = 30, FIRST_RUNS = 300, EXCHANGES = 2000, MOST_OVERLAPS = 50, TEXTS_OF_OVERLAP = 5, COLOURS = ["#0b57a4", "#b34700", "#2e7d32", "#6a3d9a"];
const OF_CLASSES = [...COLOURS, "#b0087d", "#007a87", "#8a6d00", "#c62828", "#5d4037", "#3949ab"], OTHER = "#9aa0a8";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value); else made.setAttribute(name, value);
  }
  made.append(...children.map(child => child instanceof Node ? child : String(child)));
  return made;
}
const percent = (value, digits = 2) => value === undefined || value === null ? DASH : (100 * value).toFixed(digits);
const signed = value => (value >= 0 ? "+" : "−") + Math.abs(100 * value).toFixed(2);

function table(header, rows, attributes = {}) {
  const isText = k => !k || rows[0]?.[k]?.className === "long";
  const heading = name => attributes.class === "matrix" ? name : element("button", { type: "button" }, name);
  const head = element("thead", {}, element("tr", {}, ...header.map((name, k) => element("th", isText(k) ? { class: "text" } : {}, heading(name)))));
  const body = element("tbody", {}, ...rows.map(row => element("tr", {}, ...row.map((value, k) =>
    value instanceof HTMLTableCellElement ? value : element("td", k ? {} : { class: "text" }, value)))));
  const whole = element("table", attributes, head, body);
  makeSortable(whole);
  return element("div", { class: "wide" }, whole);
}
const long = text => element("td", { class: "long" }, text);

// ---- the table of all runs
const ofRows = run => run.split === "val" && run.clusters === undefined ? " on val" : ""; // often a handful of rows, which chose the epoch
const withInterval = name => run => run[name] === undefined ? [DASH, null]
  : [(run[name + "_low"] === undefined ? percent(run[name]) : `${percent(run[name])} (${percent(run[name + "_low"], 1)} to ${percent(run[name + "_high"], 1)})`) + ofRows(run), run[name]];
const plain = name => run => [run[name] ?? DASH, run[name] ?? null];
const CLUSTER_COLUMNS = [
  ["NMI", run => [percent(run.nmi), run.nmi ?? null]], ["clusters", plain("clusters")], ["largest cluster", run => [percent(run.largest, 1), run.largest ?? null]],
];
const columns = [
  ["run", run => [run.id, run.id]], ["method", run => [(run.method ?? DASH) + (run.reads && ` (${run.reads})`), run.method ?? null]], ["data set", plain("dataset")], ["encoder", plain("encoder")],
  ["protocol", plain("protocol")], ["seed", plain("seed")], ["status", run => [run.error ? `${run.status}: ${run.error}` : run.status, run.status]],
  ["accuracy", withInterval("accuracy")], ["macro-F1", withInterval("macro_f1")], ["micro-F1", run => [percent(run.micro_f1) + (run.micro_f1 == null ? "" : ofRows(run)), run.micro_f1 ?? null]],
  ...(runs.some(run => run.clusters !== undefined) ? CLUSTER_COLUMNS : []),
  ["val macro-F1", run => [percent(run.val), run.val ?? null]],
  ["seconds", run => [run.seconds == null ? DASH : run.seconds.toFixed(1), run.seconds ?? null]], ["written", plain("written")],
];
const ticked = new Set();
let entries = [], mostShown = FIRST_RUNS; // a table of thousands of rows takes a browser seconds

function drawTable() {
  const head = element("tr", {}, element("th", { class: "pick", title: "tick two to compare" }, "✓"));
  columns.forEach(([name], place) => head.append(element("th", place < 5 ? { class: "text" } : {}, element("button", { type: "button", onclick: () => sortBy(place) }, name))));
  byId("runs").tHead.append(head);
  entries = runs.map(run => ({ run, row: null, words: columns.map(([, cell]) => cell(run)[0]).join(" ").toLowerCase() }));
  for (const name of ["method", "dataset", "status"]) {
    const values = [...new Set(runs.map(run => run[name]).filter(value => value !== null && value !== undefined))].sort();
    byId(name).append(element("option", { value: "" }, "all"), ...values.map(value => element("option", {}, value)));
    byId(name).addEventListener("change", filter);
  }
  byId("search").addEventListener("input", filter);
  byId("all").addEventListener("click", () => { mostShown = Infinity; filter(); });
  byId("compare").addEventListener("click", () => { location.hash = `compare=${[...ticked].join(",")}`; follow(); });
  sortBy(columns.length - 1);
}

function rowOf(entry) {
  if (entry.row) return entry.row;
  const run = entry.run, tick = element("input", { type: "checkbox", "aria-label": `compare ${run.id}`, onclick: () => { tick.checked ? ticked.add(run.id) : ticked.delete(run.id); byId("compare").disabled = ticked.size !== 2; } });
  tick.disabled = run.status !== "finished";
  entry.row = element("tr", {}, element("td", { class: "pick" }, tick));
  columns.forEach(([, cell], place) => {
    const [shown] = cell(run);
    entry.row.append(element("td", place < 5 ? { class: "text" } : {}, place ? shown : element("button", { type: "button", onclick: () => { location.hash = `run=${run.id}`; follow(); } }, shown)));
  });
  return entry.row;
}

function sortBy(place) {
  const heads = [...byId("runs").tHead.rows[0].cells].slice(1), down = turn(heads, heads[place]);
  const value = entry => columns[place][1](entry.run)[1];
  entries.sort((a, b) => inOrder(value(a), value(b), down));
  filter();
}

function filter() {
  const wanted = ["method", "dataset", "status"].map(name => [name, byId(name).value]).filter(([, value]) => value);
  const fitting = entries.filter(entry => hasWords(entry.words, byId("search").value) && wanted.every(([name, value]) => String(entry.run[name]) === value));
  byId("runs").tBodies[0].replaceChildren(...fitting.slice(0, mostShown).map(rowOf));
  byId("count").textContent = `${fitting.length} of ${runs.length} runs`;
  byId("all").hidden = fitting.length <= mostShown;
  byId("all").textContent = `show all ${fitting.length}, not the first ${FIRST_RUNS} alone`;
}

// ---- files beside the page
function load(name) {
  return new Promise((resolve, reject) => {
    const script = element("script", { src: name });
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${name} cannot be read`));
    document.head.append(script);
  });
}

async function fetchRun(id) {
  if (!board.runs.has(id)) await load(`runs/${encodeURIComponent(id)}.js`);
  const run = board.runs.get(id);
  if (run.texts && !board.texts.has(run.texts)) await load(run.texts).catch(() => { run.texts = null; });
  return run;
}
const textOf = (run, index) => (run.texts && board.texts.get(run.texts)?.[index]) || `row ${index}`;

// ---- figures from predictions; a row has one label or a list of them
const labelsOf = value => Array.isArray(value) ? value : [value];
const isRight = (truth, predicted) => String(labelsOf(truth)) === String(labelsOf(predicted));
const nameOf = (run, value) => labelsOf(value).map(label => run.labels[label] ?? "no label").join(", ") || "none";

function classF1(truth, predicted, numClasses) {
  const hits = new Array(numClasses).fill(0), said = new Array(numClasses).fill(0), there = new Array(numClasses).fill(0);
  truth.forEach((value, row) => {
    const guesses = labelsOf(predicted[row]);
    for (const label of labelsOf(value)) { there[label] += 1; if (guesses.includes(label)) hits[label] += 1; }
    for (const label of guesses) if (label >= 0) said[label] += 1;
  });
  return hits.map((hit, label) => ({ label, rows: there[label], f1: there[label] + said[label] ? 2 * hit / (there[label] + said[label]) : null }));
}
function macroF1(truth, predicted, numClasses) { // over the classes that occur in labels or predictions
  const present = classF1(truth, predicted, numClasses).filter(entry => entry.f1 !== null);
  return present.reduce((sum, entry) => sum + entry.f1, 0) / present.length;
}

const svg = (tag, attributes, text = "") => { const made = document.createElementNS("http://www.w3.org/2000/svg", tag); for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value); made.textContent = text; return made; };

function legendOf(title, names, colours) {
  const legend = element("figcaption", {}, title);
  names.forEach((name, k) => { const key = element("span", {}, `● ${name} `); key.style.color = colours[k % colours.length]; legend.append(key); });
  return legend;
}

function embeddingMap(run) { // the largest classes have colours; a wrong answer is a ring
  const first = run.map.map(([row]) => labelsOf(run.truth[row])[0]), counts = new Map();
  first.forEach(label => counts.set(label, (counts.get(label) ?? 0) + 1));
  const shown = [...counts].sort((a, b) => b[1] - a[1]).slice(0, OF_CLASSES.length).map(([label]) => label), side = 480;
  const range = axis => { const values = run.map.map(point => point[axis]); return [Math.min(...values), Math.max(...values)]; };
  const scale = axis => { const [low, high] = range(axis); return value => 10 + (side - 20) * (high > low ? (value - low) / (high - low) : .5); };
  const x = scale(1), y = scale(2), drawing = svg("svg", { viewBox: `0 0 ${side} ${side}`, role: "img", "aria-label": `two principal components of the embeddings of ${run.map.length} rows, by class` });
  run.map.forEach(([row, a, b], k) => {
    const place = shown.indexOf(first[k]), colour = place < 0 ? OTHER : OF_CLASSES[place], right = isRight(run.truth[row], run.predicted[row]);
    const dot = svg("circle", { cx: x(a).toFixed(1), cy: (side - y(b)).toFixed(1), r: right ? 3 : 4, fill: right ? colour : "white", stroke: colour, "stroke-width": right ? 0 : 1.5, "fill-opacity": .75 });
    dot.append(svg("title", {}, `${nameOf(run, run.truth[row])}${right ? "" : `, taken for ${nameOf(run, run.predicted[row])}`}: ${textOf(run, run.rows[row])}`));
    drawing.append(dot);
  });
  const names = shown.map(label => run.labels[label] ?? "no label"), rest = counts.size > shown.length ? [...names, "others"] : names;
  return element("figure", {}, drawing, legendOf(`two principal components of ${run.map.length} rows; a ring: a wrong answer. `, rest, [...OF_CLASSES.slice(0, names.length), OTHER]));
}

function curves(history) {
  const names = [...new Set(history.flatMap(row => Object.keys(row)))].filter(name => name !== "epoch");
  const groups = [["loss", names.filter(name => name.includes("loss"))], ["validation, %", names.filter(name => /^val\/(accuracy|macro_f1|micro_f1)$/.test(name))]];
  return element("div", { class: "charts" }, ...groups.filter(([, keys]) => keys.length).map(([title, keys]) =>
    chart(title, keys.map(key => [key, history.filter(row => row[key] !== undefined).map(row => [row.epoch + 1, title === "loss" ? row[key] : 100 * row[key]])]))));
}

function chart(title, series, unit = "epoch") {
  const points = series.flatMap(([, line]) => line), width = 480, height = 220, left = 46, bottom = 30, top = 10;
  const [x0, x1] = [Math.min(...points.map(p => p[0])), Math.max(...points.map(p => p[0]))], [y0, y1] = [Math.min(...points.map(p => p[1])), Math.max(...points.map(p => p[1]))];
  const x = value => left + (width - left - 12) * (x1 > x0 ? (value - x0) / (x1 - x0) : .5), y = value => height - bottom - (height - bottom - top) * (y1 > y0 ? (value - y0) / (y1 - y0) : .5);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} by ${unit}: ${series.map(([name]) => name).join(", ")}` });
  for (const value of y1 > y0 ? [y0, (y0 + y1) / 2, y1] : [y0]) drawing.append(svg("line", { class: "axis", x1: left, x2: width - 12, y1: y(value), y2: y(value) }), svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(Math.abs(value) >= 10 ? 1 : 2)));
  for (const value of x1 > x0 ? [x0, x1] : [x0]) drawing.append(svg("text", { x: x(value), y: height - 10, "text-anchor": value === x0 && x1 > x0 ? "start" : "end" }, unit === "epoch" ? `epoch ${value}` : `${value} ${unit}`));
  series.forEach(([, line], k) => {
    drawing.append(svg("polyline", { class: "curve", stroke: COLOURS[k % COLOURS.length], points: line.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ") }));
    line.forEach(([a, b]) => drawing.append(svg("circle", { cx: x(a), cy: y(b), r: 2.5, fill: COLOURS[k % COLOURS.length] })));
  });
  return element("figure", {}, drawing, legendOf(`${title}: `, series.map(([name]) => name), COLOURS));
}

function confusion(run) {
  const counts = new Map();
  run.truth.forEach((truth, row) => { const key = `${truth} ${run.predicted[row]}`; counts.set(key, (counts.get(key) ?? 0) + 1); });
  if (run.labels.length > MOST_CLASSES) {
    const wrong = [...counts].map(([key, count]) => [...key.split(" ").map(Number), count]).filter(([a, b]) => a !== b).sort((a, b) => b[2] - a[2]).slice(0, 30);
    return table(["label", "taken for", "rows"], wrong.map(([a, b, count]) => [run.labels[a], nameOf(run, b), count]));
  }
  const totals = run.labels.map((_, label) => run.truth.filter(truth => truth === label).length);
  const rows = run.labels.map((name, a) => [name, ...run.labels.map((_, b) => {
    const count = counts.get(`${a} ${b}`) ?? 0, share = totals[a] ? count / totals[a] : 0, cell = element("td", { class: "cell", title: `${name} taken for ${run.labels[b]}: ${count}` }, count || "");
    cell.style.background = `color-mix(in srgb, ${a === b ? "#0b57a4" : "#b34700"} ${Math.round(60 * share)}%, white)`;
    return cell;
  })]);
  return table(["label \\ prediction", ...run.labels], rows, { class: "matrix" });
}

const settings = (node, start = "") => Object.entries(node ?? {}).flatMap(([key, value]) =>
  value !== null && typeof value === "object" && !Array.isArray(value) ? settings(value, `${start}${key}.`) : [[`${start}${key}`, JSON.stringify(value)]]);

function show(...parts) {
  byId("opened").replaceChildren(...parts.filter(Boolean));
  byId("opened").scrollIntoView();
  byId("opened").focus({ preventScroll: true });
}
const commandOf = run => run.command ? element("p", {}, element("code", {}, run.command)) : element("p", { class: "dim" }, "The line that started this run was not kept; its settings are below.");

const summaryOf = id => runs.find(run => run.id === id);

// ---- one run
async function open(id) {
  entries.forEach(entry => entry.row?.classList.toggle("open", entry.run.id === id));
  const summary = summaryOf(id);
  if (summary.status !== "finished") return show(element("h2", {}, id), element("p", { class: "warn" }, `${summary.status}${summary.error ? `: ${summary.error}` : ""}`));
  const run = await fetchRun(id).catch(error => show(element("h2", {}, id), element("p", { class: "warn" }, error.message)));
  if (!run) return;
  const parts = [element("h2", {}, id), commandOf(run)];
  if (summary.page) parts.push(pageOf(summary));
  if (run.assigned) parts.push(...clusterParts(summary, run));
  if (run.history?.length) parts.push(element("h3", {}, "Learning curves"), curves(run.history));
  if (run.by_labels?.length) {
    const keys = [...new Set(run.by_labels.flatMap(Object.keys))].filter(key => key !== "labels");
    parts.push(element("h3", {}, "Labels that were asked for"), element("div", { class: "charts" }, chart("%", keys.map(key => [key, run.by_labels.filter(point => point[key] !== undefined).map(point => [point.labels, 100 * point[key]])]), "labels")));
    parts.push(element("p", {}, "The model of the last round: ", element("button", { type: "button", onclick: () => { location.hash = `run=${run.last_run}`; follow(); } }, run.last_run)));
  }
  if (run.predicted) {
    const f1 = classF1(run.truth, run.predicted, run.labels.length).filter(entry => entry.rows).sort((a, b) => a.f1 - b.f1);
    parts.push(element("h3", {}, "Classes, worst first"), table(["class", "rows", "F1, %"], f1.map(entry => [run.labels[entry.label], entry.rows, percent(entry.f1)])));
    if (!run.truth.some(Array.isArray)) parts.push(element("h3", {}, "Confusion"), confusion(run));
    if (run.map?.length > 1) parts.push(element("h3", {}, "Embeddings"), element("div", { class: "charts" }, embeddingMap(run)));
    const wrong = run.rows.map((_, row) => row).filter(row => !isRight(run.truth[row], run.predicted[row]));
    parts.push(element("h3", {}, `Texts with a wrong answer: ${wrong.length} of ${run.rows.length}${wrong.length > SHOWN_TEXTS ? `, the first ${SHOWN_TEXTS}` : ""}`),
      table(["label", "prediction", "text"], wrong.slice(0, SHOWN_TEXTS).map(row => [nameOf(run, run.truth[row]), nameOf(run, run.predicted[row]), long(textOf(run, run.rows[row]))])));
  }
  parts.push(element("details", {}, element("summary", {}, "All settings"), table(["key", "value"], settings(run.config).map(([key, value]) => [key, long(value)]))));
  show(...parts);
}

// ---- a clustering
const pageOf = (summary, name = "") => element("p", {}, element("a", { href: `../${encodeURIComponent(summary.id)}/clusters/index.html` }, `${name}map, words, hierarchy and outliers of the clusters`));
const SCORES = [["ACC", run => run.accuracy], ["NMI", run => run.nmi], ["largest cluster's share", run => run.largest]];

function clusterParts(summary, run) {
  const counts = run.clusters.map(() => ({ texts: 0, labels: new Map() }));
  run.assigned.forEach((cluster, row) => {
    const of = counts[cluster], label = run.truth?.[row];
    of.texts += 1; of.labels.set(label, (of.labels.get(label) ?? 0) + 1);
  });
  const largest = run.clusters.map((_, cluster) => cluster).sort((a, b) => counts[b].texts - counts[a].texts);
  const labelled = cluster => { const [label, count] = [...counts[cluster].labels].sort((a, b) => b[1] - a[1])[0] ?? []; return [long(run.labels[label] ?? "no label"), percent(count / counts[cluster].texts, 1)]; };
  return [element("h3", {}, "Figures"), table(["figure", "%"], SCORES.filter(([, value]) => value(summary) !== undefined).map(([name, value]) => [name, percent(value(summary))])),
    element("h3", {}, `Clusters: ${run.clusters.length}, the largest first`),
    table(["cluster", "texts", ...(run.truth ? ["most frequent label", "its share, %"] : [])], largest.map(cluster => [run.clusters[cluster], counts[cluster].texts, ...(run.truth ? labelled(cluster) : [])]))];
}

// ---- two runs on the same rows
function logFactorials(n) { // of 0 to n
  const logs = [0];
  for (let k = 1; k <= n; k++) logs.push(logs[k - 1] + Math.log(k));
  return logs;
}

function mcnemar(b, c) { // exact, two-sided: of b + c rows that one of the two has right, as unequal a share or more
  const n = b + c, logs = logFactorials(n);
  let p = 0;
  for (let k = 0; k <= Math.min(b, c); k++) p += Math.exp(logs[n] - logs[k] - logs[n - k] - n * Math.LN2);
  return n ? Math.min(1, 2 * p) : 1;
}

function randomised(truth, first, second, numClasses) { // Noreen 1989: which run said what is exchanged row by row
  const difference = (a, b) => macroF1(truth, a, numClasses) - macroF1(truth, b, numClasses);
  const measured = difference(first, second), unequal = truth.map((_, row) => row).filter(row => String(first[row]) !== String(second[row]));
  let state = 1, larger = 0;
  const random = () => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return state / 4294967296; };
  const [a, b] = [[...first], [...second]], times = Math.min(EXCHANGES, Math.max(200, Math.floor(2e7 / truth.length)));
  for (let time = 0; time < times; time++) {
    for (const row of unequal) { const flip = random() < .5; a[row] = flip ? second[row] : first[row]; b[row] = flip ? first[row] : second[row]; }
    larger += Math.abs(difference(a, b)) >= Math.abs(measured) - 1e-12;
  }
  return { measured, p: (larger + 1) / (times + 1), times };
}
const pText = p => p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`;

const sizesOf = (groups, number) => { const sizes = new Array(number).fill(0); groups.forEach(group => { sizes[group] += 1; }); return sizes; };
const sum = values => values.reduce((total, value) => total + value, 0);

function overlapsOf(a, b) { // the texts of each pair of clusters that share any, the most first; a cluster is paired once
  const overlaps = new Map(), taken = [new Set(), new Set()];
  a.forEach((cluster, row) => {
    const key = `${cluster} ${b[row]}`;
    if (!overlaps.has(key)) overlaps.set(key, { a: cluster, b: b[row], rows: [], paired: false });
    overlaps.get(key).rows.push(row);
  });
  const largest = [...overlaps.values()].sort((x, y) => y.rows.length - x.rows.length);
  for (const overlap of largest) {
    overlap.paired = !taken[0].has(overlap.a) && !taken[1].has(overlap.b);
    if (overlap.paired) { taken[0].add(overlap.a); taken[1].add(overlap.b); }
  }
  return largest;
}

// Adjusted Rand index (Hubert and Arabie 1985) and adjusted mutual information over the arithmetic mean of the entropies
// (Vinh et al. 2010), of the sizes of clusters and the overlaps' own; null where nothing can differ from chance.
function agreement(sizesA, sizesB, shared) {
  const n = sum(shared), pairs = sizes => sum(sizes.map(size => size * (size - 1) / 2));
  const adjusted = (value, expected, most) => most - expected > 1e-12 * most ? (value - expected) / (most - expected) : null;
  const [inA, inB] = [pairs(sizesA), pairs(sizesB)], rand = adjusted(pairs(shared), inA * inB / (n * (n - 1) / 2), (inA + inB) / 2);
  const entropy = sizes => sum(sizes.filter(Boolean).map(size => -size / n * Math.log(size / n)));
  const [ofA, ofB] = [entropy(sizesA), entropy(sizesB)];
  return { rand, information: adjusted(ofA + ofB - entropy(shared), expectedInformation(sizesA, sizesB, n), (ofA + ofB) / 2) };
}

function expectedInformation(sizesA, sizesB, n) { // of clusters of these sizes drawn at random: over all sizes of an overlap
  const logs = logFactorials(n);
  let expected = 0;
  for (const a of sizesA) for (const b of sizesB) {
    const fixed = logs[a] + logs[b] + logs[n - a] + logs[n - b] - logs[n];
    for (let both = Math.max(1, a + b - n); both <= Math.min(a, b); both++) {
      const chance = Math.exp(fixed - logs[both] - logs[a - both] - logs[b - both] - logs[n - a - b + both]);
      expected += chance * both / n * Math.log(n * both / (a * b));
    }
  }
  return expected;
}

function clusteringsParts(first, second, b, unlike) {
  const a = first.assigned, overlaps = overlapsOf(a, b), sizes = [sizesOf(a, first.clusters.length), sizesOf(b, second.clusters.length)];
  const { rand, information } = agreement(...sizes, overlaps.map(overlap => overlap.rows.length)), apart = overlaps.filter(overlap => !overlap.paired);
  const texts = sum(apart.map(overlap => overlap.rows.length)), some = apart.flatMap(overlap => overlap.rows.slice(0, TEXTS_OF_OVERLAP)).slice(0, SHOWN_TEXTS);
  const [ours, theirs] = [first, second].map(run => summaryOf(run.id)), labelled = first.truth ? ["label"] : [];
  const figures = SCORES.map(([name, value]) => [name, value(ours), value(theirs)]).filter(([, x, y]) => x !== undefined && y !== undefined);
  const share = (count, whole) => percent(count / whole, 1);
  return [
    table(["figure, %", "A", "B", "A − B"], figures.map(([name, x, y]) => [name, percent(x), percent(y), signed(x - y)])),
    table(["agreement of A with B, %", ""], [["adjusted mutual information", percent(information)], ["adjusted Rand index", percent(rand)], ["texts whose two clusters are paired", percent(1 - texts / a.length)]]),
    element("p", { class: "dim" }, `${a.length} texts. Both indices are 100 where A and B cluster alike and about 0 where they agree by chance alone. Clusters are paired one to one, the largest overlap first.`),
    unlike, element("h3", {}, `Overlaps of ${first.clusters.length} clusters of A and ${second.clusters.length} of B, largest first: ${overlaps.length}${overlaps.length > MOST_OVERLAPS ? `, the first ${MOST_OVERLAPS}` : ""}`),
    table(["A", "B", "texts", "of A's, %", "of B's, %", "paired"], overlaps.slice(0, MOST_OVERLAPS).map(({ a: x, b: y, rows, paired }) =>
      [long(first.clusters[x]), long(second.clusters[y]), rows.length, share(rows.length, sizes[0][x]), share(rows.length, sizes[1][y]), paired ? "yes" : "no"])),
    element("h3", {}, `Texts on which they part: ${texts}${texts > some.length ? `, ${some.length} of them, at most ${TEXTS_OF_OVERLAP} of an overlap` : ""}`),
    table([...labelled, "A", "B", "text"], some.map(row => [...labelled.map(() => first.labels[first.truth[row]] ?? "no label"), long(first.clusters[a[row]]), long(second.clusters[b[row]]), long(textOf(first, first.rows[row]))])),
  ];
}

async function compare(firstId, secondId) {
  const [first, second] = await Promise.all([fetchRun(firstId), fetchRun(secondId)]).catch(error => { show(element("p", { class: "warn" }, error.message)); return []; });
  if (!first) return;
  const heading = element("h2", {}, `A: ${firstId} against B: ${secondId}`);
  const [ours, theirs] = [new Map(settings(first.config)), new Map(settings(second.config))];
  const keys = [...new Set([...ours.keys(), ...theirs.keys()])].filter(key => ours.get(key) !== theirs.get(key) && !key.startsWith("paths."));
  const unlike = element("details", keys.length > 12 ? {} : { open: "" }, element("summary", {}, `Settings that differ: ${keys.length}`), table(["key", "A", "B"], keys.map(key => [key, long(ours.get(key) ?? DASH), long(theirs.get(key) ?? DASH)])));
  const place = new Map((second.rows ?? []).map((index, row) => [index, row]));
  const sameRows = first.data === second.data && first.rows?.length === second.rows?.length && first.rows?.every(index => place.has(index));
  if (sameRows && first.assigned && second.assigned)
    return show(heading, ...[firstId, secondId].map(summaryOf).map((summary, k) => summary.page && pageOf(summary, `${"AB"[k]}: `)), ...clusteringsParts(first, second, first.rows.map(index => second.assigned[place.get(index)]), unlike));
  if (!sameRows || !first.predicted || !second.predicted || String(first.labels) !== String(second.labels))
    return show(heading, element("p", { class: "warn" }, "These two were not measured on the same rows: their figures cannot be compared row by row."), unlike);
  if (!first.rows.every((index, row) => String(first.truth[row]) === String(second.truth[place.get(index)]))) return show(heading, element("p", { class: "warn" }, "The labels of the same rows differ between these two."), unlike);
  const truth = first.truth, a = first.predicted, b = first.rows.map(index => second.predicted[place.get(index)]), numClasses = first.labels.length;
  const right = [a, b].map(said => said.map((value, row) => isRight(truth[row], value)));
  const [onlyA, onlyB] = [[0, 1], [1, 0]].map(([x, y]) => truth.map((_, row) => row).filter(row => right[x][row] && !right[y][row]));
  const share = rights => rights.filter(Boolean).length / truth.length, p = mcnemar(onlyA.length, onlyB.length), macro = randomised(truth, a, b, numClasses);
  const f1 = [classF1(truth, a, numClasses), classF1(truth, b, numClasses)];
  const classes = f1[0].map((entry, label) => ({ label, rows: entry.rows, a: entry.f1 ?? 0, b: f1[1][label].f1 ?? 0 })).filter(entry => entry.rows).sort((x, y) => Math.abs(y.a - y.b) - Math.abs(x.a - x.b));
  const texts = (title, rows) => [element("h3", {}, `${title}: ${rows.length}${rows.length > SHOWN_TEXTS ? `, the first ${SHOWN_TEXTS}` : ""}`),
    table(["label", "A", "B", "text"], rows.slice(0, SHOWN_TEXTS).map(row => [nameOf(first, truth[row]), nameOf(first, a[row]), nameOf(first, b[row]), long(textOf(first, first.rows[row]))]))];
  show(heading, table(["figure, %", "A", "B", "A − B", "test"], [
    ["accuracy", percent(share(right[0])), percent(share(right[1])), signed(share(right[0]) - share(right[1])), `McNemar, exact: ${pText(p)}`],
    ["macro-F1", percent(macroF1(truth, a, numClasses)), percent(macroF1(truth, b, numClasses)), signed(macro.measured), `randomisation, ${macro.times} exchanges: ${pText(macro.p)}`]]),
    element("p", { class: "dim" }, `${truth.length} rows, one seed each. A p is that of one comparison: of twenty that are looked at, one is below 0.05 by chance.`),
    unlike, element("h3", {}, "Classes, largest difference first"),
    table(["class", "rows", "F1 of A, %", "F1 of B, %", "A − B"], classes.map(entry => [first.labels[entry.label], entry.rows, percent(entry.a), percent(entry.b), signed(entry.a - entry.b)])),
    ...texts("Right in A alone", onlyA), ...texts("Right in B alone", onlyB));
}

// ---- the address says what is open, so that a link or the browser's "back" opens it again
let followed = "";
function follow() {
  if (location.hash === followed) return;
  followed = location.hash;
  const [kind, names = ""] = decodeURIComponent(followed.slice(1)).split("="), ids = names.split(",");
  if (!ids.every(id => runs.some(run => run.id === id))) return;
  if (kind === "run") open(ids[0]);
  if (kind === "compare" && ids.length === 2) compare(...ids);
}
window.addEventListener("hashchange", follow);

drawTable();
follow();
