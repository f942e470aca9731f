// Server-sent events bring changes: new HTML for a part, or a new figure.
const parts = name => document.querySelector(`[data-part="${name}"]`);
const replace = (part, html) => {
  const open = new Set([...part.querySelectorAll("details[open]")].map(each => each.id));
  part.innerHTML = html;
  for (const each of part.querySelectorAll("details")) each.open ||= open.has(each.id);
};
const show = (name, part, {figure, says}) => {
  let place = document.getElementById(name);
  if (figure ? !place : place) {
    part.innerHTML = figure ? `<div class='wide'><div class='figure' id='${name}'></div></div><p></p>` : "<p></p>";
    place = figure && document.getElementById(name);
  }
  part.lastElementChild.className = figure ? "caption" : "soft";
  part.lastElementChild.textContent = says;
  if (!figure) return;
  newer[name] = JSON.stringify(figure);
  place.style.minHeight = `${figure.layout.height}px`;
  // Draw the figure now if it is in view, else later.
  watcher.unobserve(place);
  watcher.observe(place);
};
// Update the relative times between events.
const span = seconds => seconds < 100 ? `${Math.round(seconds)} s`
  : seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
const updateTimes = () => {
  for (const time of document.querySelectorAll("time[data-since]"))
    time.textContent = span(Math.max(0, Date.now() / 1000 - time.dataset.since));
};
updateTimes();
setInterval(updateTimes, 1000);
const lost = document.getElementById("lost");
let source, version = document.body.dataset.version, isOver = false;
const seen = new Set();
const listen = () => {
  source?.close();
  source = new EventSource(`events?since=${version}&see=${[...seen].join()}`);
  source.onopen = () => { lost.hidden = true; };
  source.onerror = () => { lost.hidden = false; };
  source.onmessage = ({data, lastEventId}) => {
    const {over, changed} = JSON.parse(data);
    version = lastEventId;
    for (const [name, content] of Object.entries(changed)) {
      const part = parts(name);
      if (part) content.html === undefined ? show(name, part, content) : replace(part, content.html);
    }
    updateTimes();
    isOver = over;
    if (over) source.close();
  };
};
// While a search runs, the server draws only figures in view.
let soon;
const partsObserver = new IntersectionObserver(entries => {
  for (const {target, isIntersecting} of entries) seen[isIntersecting ? "add" : "delete"](target.dataset.part);
  clearTimeout(soon);
  soon = setTimeout(() => { if (!isOver && !document.hidden) listen(); }, 200);
}, {rootMargin: "300px"});
for (const part of document.querySelectorAll("[data-part]")) partsObserver.observe(part);
// A hidden page closes its connection, because a browser allows only six connections for all pages.
document.addEventListener("visibilitychange", () => { source?.close(); if (!document.hidden) listen(); });
