"use strict";
// Puts in what the broker sends: parts of the page, ready to be shown.
const pause = document.getElementById("pause");
const gone = document.getElementById("gone");
const since = document.getElementById("since");
let paused = false;
let heard = new Date();

function show(part) {
  return (event) => {
    heard = new Date();
    gone.hidden = true;
    if (!paused) document.getElementById(part).innerHTML = JSON.parse(event.data);
  };
}

function toggle() {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
}

function connect() {
  const stream = new EventSource("stream");
  for (const part of ["state", "hour", "events"]) stream.addEventListener(part, show(part));
  stream.onerror = () => {
    // A browser doesn't try again after every kind of failure: a broker that starts may refuse a few times.
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
  };
}

setInterval(() => {
  if (Date.now() - heard > 3500) {
    since.textContent = heard.toLocaleTimeString();
    gone.hidden = false;
  }
}, 500);
pause.addEventListener("click", toggle);
document.addEventListener("keydown", (event) => {
  if (event.key === "p" && !event.ctrlKey && !event.metaKey && !event.altKey) toggle();
});
connect();
