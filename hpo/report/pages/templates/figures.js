// Only what is looked at is drawn: a page of large figures opens at once. What is printed is drawn whole.
const places = [...document.querySelectorAll(".figure")];
const draw = place => {
  const figure = JSON.parse(document.getElementById(place.id + "-data").textContent);
  Plotly.newPlot(place, figure.data, figure.layout, settings);
};
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
}, {rootMargin: "800px"});
places.forEach(place => watcher.observe(place));
addEventListener("beforeprint", () => places.filter(place => !place.data).forEach(draw));
