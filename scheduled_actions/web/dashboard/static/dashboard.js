// Additions to htmx: a cookie with the viewer's time zone, and refreshes that keep the focus and the open details, and
// pause while text is selected, a box is checked, or a dialog is open. Every page works without scripts.
"use strict";
(() => {
  // -- the viewer's time zone: a cookie, so that the server can show local times -----------------------------------
  const ZONE = "scheduled_actions_zone";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const kept = document.cookie.split("; ").find((one) => one.startsWith(`${ZONE}=`));
  if (zone && kept !== `${ZONE}=${zone}`) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `${ZONE}=${zone}; path=/; max-age=31536000; SameSite=Lax${secure}`;
    const isKept = document.cookie.includes(`${ZONE}=${zone}`);
    if (isKept && document.querySelector("time")) location.reload();
  }

  // -- live parts ---------------------------------------------------------------------------------------------------
  const isBusy = (part) =>
    document.hidden || part.querySelector("input:checked, dialog[open]") || part.contains(selectionNode());
  const selectionNode = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed ? selection.anchorNode : null;
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    const part = event.detail.elt;
    if (part.classList.contains("live") && event.detail.requestConfig.verb === "get" && isBusy(part)) {
      event.preventDefault();
    }
  });
  // Open details and the keyboard focus are restored after the swap.
  const places = (part) => [...part.querySelectorAll("details")];
  let opened = [];
  let focused = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (!part.classList.contains("live")) return;
    opened = places(part).map((one) => one.open);
    const links = [...part.querySelectorAll("a, button, summary, input, select")];
    focused = links.indexOf(document.activeElement);
    focused = focused < 0 ? null : { part: part.id, href: document.activeElement.href, position: focused };
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    const part = event.detail.elt;
    if (!part.classList || !part.classList.contains("live")) return;
    places(part).forEach((one, position) => {
      if (position < opened.length) one.open = opened[position];
    });
    if (focused && focused.part === part.id && !part.contains(document.activeElement)) {
      const links = [...part.querySelectorAll("a, button, summary, input, select")];
      const same = focused.href && links.find((one) => one.href === focused.href);
      const next = same || links[focused.position];
      if (next) next.focus({ preventScroll: true });
    }
    focused = null;
  });
  // Tell the user when refreshes fail.
  const away = document.getElementById("away");
  const showStale = (isStale) => {
    document.documentElement.classList.toggle("stale", isStale);
    if (away) away.textContent = isStale ? away.dataset.said : "";
  };
  document.addEventListener("htmx:sendError", () => showStale(true));
  // htmx fires this event for error responses, too.
  document.addEventListener("htmx:afterOnLoad", (event) => showStale(event.detail.xhr.status >= 400));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) document.querySelectorAll(".live").forEach((one) => htmx.trigger(one, "refresh"));
  });

  // -- small conveniences -------------------------------------------------------------------------------------------
  // Scroll the navigation to the current page.
  const here = document.querySelector(".bar nav [aria-current=page]");
  if (here) {
    const bar = here.closest("nav");
    bar.scrollLeft += here.getBoundingClientRect().left - bar.getBoundingClientRect().left - 16;
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });
  // Submit each form once.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post" || event.defaultPrevented) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach((one) => delete one.dataset.sent);
  });
})();
