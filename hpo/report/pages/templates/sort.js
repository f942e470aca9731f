// Numbers by size, texts by the alphabet, what is empty last, whichever way.
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => head.addEventListener("click", () => {
    const way = head.dataset.way = head.dataset.way === "1" ? "-1" : "1";
    const text = row => row.cells[column].textContent;
    const compare = (a, b) => a === "" || b === "" ? (a === "") - (b === "")
      : way * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => compare(text(a), text(b))));
  }));
}
