"use strict";
// Puts in what the broker sends: parts of the page, ready to be shown.
const pause = document.getElementById("pause");
const gone = document.getElementById("gone");
const since = document.getElementById("since");
let paused = false;
let heard = new Date();
// What came during a pause: a part that doesn't change afterwards isn't sent again.
const missed = {};

function put(part, text) {
  document.getElementById(part).innerHTML = text;
}

function show(part) {
  return (event) => {
    heard = new Date();
    gone.hidden = true;
    const text = JSON.parse(event.data);
    if (paused) missed[part] = text;
    else put(part, text);
  };
}

function toggle() {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) return;
  for (const part of Object.keys(missed)) {
    put(part, missed[part]);
    delete missed[part];
  }
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
