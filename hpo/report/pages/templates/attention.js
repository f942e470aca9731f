const visible = token => token.replaceAll("\n", "\\n").replaceAll(" ", "\u2423");
const add = (parent, tag, text) => {
  const child = document.createElement(tag);
  if (text !== undefined) child.textContent = text;
  return parent.appendChild(child);
};
for (const map of maps) map.heads.forEach((head, number) => {
  const figure = add(document.querySelector("main"), "figure");
  add(figure, "figcaption", map.name + ", head " + number);
  const table = add(figure, "table"), top = add(add(table, "thead"), "tr"), body = add(table, "tbody");
  add(top, "td");
  for (const column of map.columns) add(top, "th", visible(column));
  head.forEach((weights, row) => {
    const line = add(body, "tr");
    add(line, "th", visible(map.rows[row]));
    weights.forEach((weight, column) => {
      const cell = add(line, "td");
      cell.style.background = "rgba(8, 48, 107, " + weight + ")";
      cell.title = visible(map.rows[row]) + " \u2192 " + visible(map.columns[column]) + ": " + weight;
    });
  });
});
