// The page of a clustering. Texts and names go into the page by textContent alone.
const byId = id => document.getElementById(id), count = page.clusters.length, NONE = count;
const element = (tag, text = "", className = "") => Object.assign(document.createElement(tag), {textContent: text, className});
const thousands = value => value.toLocaleString("en");
const texts = cluster => cluster.labels.reduce((sum, [, number]) => sum + number, 0);

// Clusters that merge early get neighbouring hues: the leaves of the tree in their order round the circle.
const leaves = [];
(function walk(node) {
  if (node < count) leaves.push(node); else page.steps[node - count].forEach(walk);
})(count + page.steps.length - 1);
const hue = new Map(leaves.map((cluster, place) => [cluster, 360 * place / Math.max(count, 1)]));
const colour = cluster => cluster === undefined ? "#8a9099" : `hsl(${hue.get(cluster)} 70% ${[42, 58, 50][leaves.indexOf(cluster) % 3]}%)`;

let groups = [], groupOf = [], chosen = null;
// The groups that are left when so many steps of the tree are done, the largest first.
function atLevel(level) {
  const members = new Map(page.clusters.map((_, cluster) => [cluster, [cluster]]));
  page.steps.slice(0, count - level).forEach(([a, b], step) => {
    members.set(count + step, [...members.get(a), ...members.get(b)]);
    members.delete(a); members.delete(b);
  });
  groups = [...members].map(([node, held]) => asGroup(held, page.clusters[node] ?? page.merged[node - count])).sort((a, b) => b.size - a.size);
  groups.forEach((group, place) => group.members.forEach(cluster => groupOf[cluster] = place));
}

function asGroup(members, {name, words}) {
  members.sort((a, b) => texts(page.clusters[b]) - texts(page.clusters[a]));
  const labels = new Map(), [largest] = members, parts = members.map(cluster => page.clusters[cluster]);
  parts.forEach(part => part.labels.forEach(([label, number]) => labels.set(label, (labels.get(label) ?? 0) + number)));
  const counts = [...labels].sort((a, b) => b[1] - a[1]), size = counts.reduce((sum, [, number]) => sum + number, 0);
  return {members, largest, labels: counts, size, name, words, far: parts.reduce((sum, part) => sum + part.far, 0)};
}

const hasLabels = page.labels.length > 0;
const labelName = label => label < 0 ? "no label" : page.labels[label];
const COLUMNS = ["group", "texts", ...(hasLabels ? ["purity", "most frequent label"] : []), "far out", "words", "central text"];
function showTable() {
  const row = document.createElement("tr"), body = byId("groups").tBodies[0];
  row.append(...COLUMNS.map(name => {
    const head = element("th", "", ["texts", "purity", "far out"].includes(name) ? "" : "text"), button = element("button", name);
    button.type = "button"; head.append(button); head.scope = "col";
    return head;
  }));
  byId("groups").tHead.replaceChildren(row);
  body.replaceChildren(...groups.map((group, place) => {
    const line = document.createElement("tr"), [label, number] = group.labels[0], open = element("button");
    open.type = "button"; open.append(dot(group.largest), group.name); open.addEventListener("click", () => openGroup(place, true));
    const cell = element("td", "", "long"); cell.dataset.value = group.name; cell.append(open, holds(group));
    const shares = hasLabels ? [element("td", `${(100 * number / group.size).toFixed(0)} %`), element("td", labelName(label), "text")] : [];
    const far = element("td", thousands(group.far)); far.dataset.value = group.far;
    line.append(cell, element("td", thousands(group.size)), ...shares, far, element("td", group.words.join(" "), "long"), element("td", page.clusters[group.largest].central[0], "long"));
    line.children[1].dataset.value = group.size; line.dataset.place = place;
    line.classList.toggle("open", place === chosen);
    return line;
  }));
  makeSortable(byId("groups"));
}

function holds(group) {
  return element("span", group.members.length > 1 ? ` ${group.members.length} clusters` : "", "dim");
}

function dot(cluster) {
  const mark = element("span", "", "dot");
  mark.style.background = colour(cluster);
  return mark;
}

function openGroup(place, move = false) {
  chosen = place;
  const section = byId("opened"), group = groups[place], heading = element("h3");
  [...byId("groups").tBodies[0].rows].forEach(row => row.classList.toggle("open", Number(row.dataset.place) === place));
  if (group === undefined) { section.replaceChildren(); draw(); return; }
  heading.append(dot(group.largest), group.name);
  const facts = [`${thousands(group.size)} texts, ${thousands(group.far)} of them far out`];
  if (hasLabels) facts.push(group.labels.slice(0, 4).map(([label, number]) => `${labelName(label)} ${(100 * number / group.size).toFixed(0)} %`).join(", "));
  const parts = [heading, ...facts.map(fact => element("p", fact, "dim")), element("p", group.words.join(" ")), ...page.clusters[group.largest].central.map(text => element("blockquote", text))];
  if (group.members.length > 1) parts.push(links("holds", group.members.slice(0, 30).map(cluster => [cluster, page.clusters[cluster].name]), group.members.length - 30));
  const near = [...new Set(page.clusters[group.largest].near.map(cluster => groupOf[cluster]))].filter(other => other !== place);
  if (near.length) parts.push(links("nearest", near.map(other => [groups[other].largest, groups[other].name])));
  section.replaceChildren(...parts);
  if (move) section.focus();
  draw();
}

function links(title, clusters, more = 0) {
  const line = element("p", "", "near");
  line.append(element("span", `${title} `, "dim"), ...clusters.map(([cluster, name]) => {
    const button = element("button"); button.type = "button";
    button.append(dot(groups[groupOf[cluster]].largest), name);
    button.addEventListener("click", () => openGroup(groupOf[cluster], true));
    return button;
  }), more > 0 ? `and ${more} more` : "");
  return line;
}

const canvas = byId("map"), brush = canvas.getContext("2d");
let places = [];
function draw() {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, margin = 12;
  canvas.width = width * ratio; canvas.height = height * ratio; brush.scale(ratio, ratio);
  const span = axis => { const values = page.points.map(point => point[axis]); return [Math.min(...values), Math.max(...values)]; };
  const [[left, right], [low, high]] = [span(0), span(1)];
  places = page.points.map(([x, y]) => [margin + (x - left) / (right - left || 1) * (width - 2 * margin), height - margin - (y - low) / (high - low || 1) * (height - 2 * margin)]);
  const typed = byId("search").value.trim(), radius = page.points.length > 1500 ? 2.2 : 3;
  page.points.forEach(([, , cluster, , far, text], number) => {
    const group = groupOf[cluster], matches = !typed || hasWords(text.toLowerCase(), typed);
    brush.globalAlpha = matches && (chosen === null || chosen === group) ? .85 : .1;
    brush.beginPath(); brush.arc(...places[number], radius + (typed && matches ? 1.5 : 0), 0, 7);
    brush.fillStyle = brush.strokeStyle = colour(groups[group]?.largest);
    far ? brush.stroke() : brush.fill();
  });
  brush.globalAlpha = 1;
}

function nearestPoint(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  let best = null, least = 144;
  places.forEach(([px, py], number) => { const distance = (px - x) ** 2 + (py - y) ** 2; if (distance < least) [best, least] = [number, distance]; });
  return best;
}

canvas.addEventListener("pointermove", event => {
  const number = nearestPoint(event);
  canvas.style.cursor = number === null ? "default" : "pointer";
  if (number === null) return;
  const [, , cluster, label, far, text] = page.points[number], group = groups[groupOf[cluster]], name = element("p");
  name.append(dot(group?.largest), group?.name ?? "in no cluster", far && group ? " · far out" : "");
  byId("hover").replaceChildren(name, element("p", text), ...(hasLabels ? [element("p", labelName(label), "dim")] : []));
});
canvas.addEventListener("click", event => {
  const number = nearestPoint(event);
  openGroup(number === null ? null : groupOf[page.points[number][2]] ?? null);
});

function showLevel() {
  const level = Number(byId("level").value);
  byId("left").textContent = level;
  document.querySelectorAll(".level").forEach(place => place.textContent = level);
  chosen = null; groupOf = [];
  atLevel(level); showTable(); openGroup(null);
}
byId("level").addEventListener("input", showLevel);
byId("search").addEventListener("input", draw);
window.addEventListener("resize", draw);
byId("outliers").append(...page.outliers.map(([cluster, text]) => {
  const line = element("li", text);
  line.append(element("span", cluster === NONE ? " · in no cluster" : ` · ${page.clusters[cluster].name}`, "dim"));
  return line;
}));
showLevel();
