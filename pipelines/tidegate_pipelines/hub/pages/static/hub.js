// Keeps a page up to date while something happens: an event says that there is news, and the page's own parts are
// fetched again as the server renders them. Without script the page is as it was when it was loaded.
"use strict";

(() => {
  const address = document.body.dataset.events;
  const status = document.querySelector(".live");
  if (!address || !window.EventSource || !status) return;
  const QUIET = 400;
  let waiting = null;
  let busy = false;
  let again = false;

  // Nothing is taken away from under somebody's hands.
  const isUsed = (part) => part.contains(document.activeElement)
    || [...part.querySelectorAll("textarea, input, select")].some((one) => one.value !== (one.defaultValue ?? one.value));

  const replace = (fresh) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (!other || isUsed(part) || part.innerHTML === other.innerHTML) continue;
      const open = new Set([...part.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
      part.replaceChildren(...document.adoptNode(other).childNodes);
      for (const one of part.querySelectorAll("details > summary")) one.parentElement.open ||= open.has(one.textContent);
    }
    const [then, now] = [document, fresh].map((page) => page.querySelector("footer time"));
    if (then && now) then.replaceWith(now);
    document.title = fresh.title;
    if (!fresh.body.dataset.events) { events.close(); status.classList.remove("on"); status.textContent = ""; }
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
      if (answer.ok && !answer.redirected) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      status.textContent = "the hub does not answer";
    }
    busy = false;
    if (again) { again = false; news(); }
  };

  const news = () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, QUIET);
  };

  const events = new EventSource(address);
  events.onopen = () => { status.classList.add("on"); status.textContent = "live"; };
  events.onerror = () => { status.classList.remove("on"); status.textContent = "not live: the page is as of when it was loaded"; };
  for (const kind of ["message", "state", "stage", "progress", "finding", "note", "engine", "alert"]) events.addEventListener(kind, news);
  addEventListener("pagehide", () => events.close());
})();
