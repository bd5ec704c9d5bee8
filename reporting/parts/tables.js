// Tables that sort by a button in their headings, and a search over rows.
const isNothing = value => value === null || value === "" || value === "–";
function inOrder(a, b, down) {
  if (isNothing(a) || isNothing(b)) return isNothing(a) - isNothing(b); // last, whichever way
  return (down ? -1 : 1) * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
}

// Marks the heading that sorts now; whether it sorts down, which it does first.
function turn(heads, head) {
  const down = head.getAttribute("aria-sort") !== "descending";
  heads.forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  return down;
}

function cellValue(cell) {
  const shown = cell.dataset.value ?? cell.textContent.trim().replace("< ", "").replace("−", "-"), number = parseFloat(shown);
  return Number.isNaN(number) ? shown : number;
}

// Headings with a button stand over the cells in their order, in one line or, where groups have a name, in two.
function makeSortable(table) {
  const heads = [...table.querySelectorAll("thead th")].filter(head => head.querySelector("button")), body = table.tBodies[0];
  heads.forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const down = turn(heads, head), rows = [...body.rows].map(row => [cellValue(row.cells[place]), row]);
    rows.sort(([a], [b]) => inOrder(a, b, down));
    body.append(...rows.map(([, row]) => row));
  }));
}

const hasWords = (text, typed) => typed.toLowerCase().split(/\s+/).filter(Boolean).every(word => text.includes(word));
