// Sort numbers by size and texts alphabetically; empty cells come last in both directions.
for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tBodies[0].rows];
  [...table.tHead.rows[0].cells].forEach((head, column) => head.addEventListener("click", () => {
    const way = head.dataset.way = head.dataset.way === "1" ? "-1" : "1";
    // Commas separate the thousands of a number.
    const text = row => row.cells[column].textContent.replaceAll(",", "");
    const compare = (a, b) => a === "" || b === "" ? (a === "") - (b === "")
      : way * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    table.tBodies[0].append(...[...rows].sort((a, b) => compare(text(a), text(b))));
  }));
  // Keep a row if each word is in one of its cells.
  document.getElementById("filter").addEventListener("input", event => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every(word => [...row.cells].some(cell =>
      cell.textContent.toLowerCase().includes(word)));
    document.getElementById("found").textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
  });
}
