"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  root.classList.add("js");

  // Sorting: headings become buttons; what has no value stays at the end.
  const value = (row, k) => {
    const cell = row.cells[k];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return text === "" || text === "-" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (table, k) => {
    const heads = [...table.tHead.rows[0].cells];
    const isNumber = heads[k].classList.contains("num");
    const before = heads[k].getAttribute("aria-sort");
    const down = before ? before === "ascending" : isNumber;
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[k].setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, k), row]);
    rows.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : down ? compare(b, a) : compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table.data")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, k) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, k));
      head.append(button);
    });
  }

  // The filter: rows of other sites go, their dots fade.
  const field = document.getElementById("filter");
  if (field) {
    const marked = [...document.querySelectorAll("[data-site]")];
    const all = new Set(marked.map((one) => one.dataset.site)).size;
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      const kept = new Set();
      for (const one of marked) {
        const fits = one.dataset.site.toLowerCase().includes(wanted);
        if (fits) kept.add(one.dataset.site);
        if (one instanceof SVGElement) one.classList.toggle("faded", !fits);
        else one.hidden = !fits;
      }
      document.getElementById("found").textContent = wanted ? `${kept.size} of ${all}` : "";
    });
  }

  // Tips: the words of a dot, by pointer or focus.
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(x + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
  };
  const hide = () => { tip.hidden = true; };
  for (const plot of document.querySelectorAll("svg.plot")) {
    const dots = [...plot.querySelectorAll(".dot")];
    dots.forEach((dot, k) => {
      const title = dot.querySelector("title");
      const words = title.textContent;
      title.remove(); // or the browser shows a second tip
      dot.setAttribute("aria-label", words);
      dot.setAttribute("tabindex", k ? "-1" : "0"); // one stop per plot; arrows go from dot to dot
      const here = () => { const box = dot.getBoundingClientRect(); show(words, box.right, box.bottom); };
      dot.addEventListener("pointerenter", here);
      dot.addEventListener("focus", here);
      dot.addEventListener("pointerleave", hide);
      dot.addEventListener("blur", hide);
      dot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
        if (!step) return;
        event.preventDefault();
        dots[(k + step + dots.length) % dots.length].focus({ preventScroll: true });
      });
    });
    if (dots.length) plot.querySelector(":scope > title")?.remove();
  }

  // Lines: the values of all series at one x.
  for (const plot of document.querySelectorAll("svg[data-lines]")) {
    const data = JSON.parse(plot.dataset.lines);
    plot.querySelector(":scope > title")?.remove();
    const cross = plot.querySelector(".cross");
    const places = [...new Set(data.series.flatMap(([, , x]) => x))].sort((a, b) => a - b);
    const span = data.high - data.low || 1;
    const across = (x) => data.left + ((x - data.low) / span) * (data.right - data.left);
    let at = places.length - 1;
    const read = (index, top) => {
      at = Math.max(0, Math.min(index, places.length - 1));
      const x = places[at];
      const rows = data.series.flatMap(([name, , xs, ys]) => { const k = xs.indexOf(x); return k < 0 ? [] : [`${name}: ${ys[k]}`]; });
      cross.setAttribute("x1", across(x));
      cross.setAttribute("x2", across(x));
      cross.setAttribute("visibility", "visible");
      const box = plot.getBoundingClientRect();
      show(`${data.label} ${x}\n${rows.join("\n")}`, box.left + (across(x) / plot.viewBox.baseVal.width) * box.width, top ?? box.top + 20);
    };
    const leave = () => { hide(); cross.setAttribute("visibility", "hidden"); };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const x = data.low + (((event.clientX - box.left) / box.width) * plot.viewBox.baseVal.width - data.left) / (data.right - data.left) * span;
      read(places.reduce((best, v, k) => (Math.abs(v - x) < Math.abs(places[best] - x) ? k : best), 0), event.clientY);
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("focus", () => { if (plot.matches(":focus-visible")) read(at); });
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -places.length, End: places.length }[event.key];
      if (step) { event.preventDefault(); read(at + step); }
    });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

  // The menu shows where the reader is; paper shows everything.
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const watch = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) links.get(target.id)?.classList.toggle("here", isIntersecting);
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main > section").forEach((one) => watch.observe(one));
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
})();
