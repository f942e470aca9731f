// Draw a figure when it comes into view, so that a page with large figures opens at once. Printing draws all.
const places = () => [...document.querySelectorAll(".figure")];
// Figures that arrived after the page was loaded, as JSON.
const newer = {};
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const draw = place => {
  const {data, layout} = JSON.parse(newer[place.id] ?? document.getElementById(place.id + "-data").textContent);
  // Use the page's colours, light or dark, and keep the zoom.
  Object.assign(layout, {template: look, paper_bgcolor: ink("--paper"), plot_bgcolor: ink("--paper"), uirevision: true});
  for (const note of layout.annotations ?? []) if (note.bgcolor) note.bgcolor = ink("--paper");
  // On a touch screen a finger scrolls the page.
  if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
  layout.font.color = ink("--ink");
  layout.modebar = {bgcolor: "transparent", color: ink("--soft"), activecolor: ink("--link")};
  const lines = {gridcolor: ink("--line"), linecolor: ink("--line"), zerolinecolor: ink("--line")};
  for (const axis of ["xaxis", "yaxis"]) Object.assign(look.layout[axis], lines);
  if (place.data) { Plotly.react(place, data, layout, settings); return; }
  Plotly.newPlot(place, data, layout, settings);
  // A click on a mark shows the row of its trial.
  place.on("plotly_click", ({points: [point]}) => {
    const trial = /-?\d+/.exec(point.data.meta ?? point.customdata);
    const row = document.getElementById("trial-" + trial);
    if (!row) return;
    row.hidden = false;
    location.hash = row.id;
    row.scrollIntoView({block: "center"});
  });
};
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
}, {rootMargin: "800px"});
places().forEach(place => watcher.observe(place));
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("#checklist details")) folded.open = true;
  places().filter(place => !place.data).forEach(draw);
  // Fit the figures to the paper's width.
  places().forEach(place => Plotly.Plots.resize(place));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => places().filter(place => place.data).forEach(draw));
