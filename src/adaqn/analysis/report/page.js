"use strict";
// Sorting of tables, choice between alternatives, colours of the charts, and following a run. All of it is optional:
// without JavaScript the tables and texts are complete.
(() => {
  const sortable = (table) => {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numeric = [...body.rows].some((row) => row.cells[column].hasAttribute("data-value"));
        const before = head.getAttribute("aria-sort");
        // Numbers begin with the highest, words with the first.
        const falling = before ? before === "ascending" : numeric;
        const key = (row) => {
          const cell = row.cells[column];
          if (!numeric) return cell.textContent;
          return cell.dataset.value ? Number(cell.dataset.value) : null;
        };
        const compare = (one, other) => {
          const [a, b] = [key(one), key(other)];
          if (a === null || b === null) return (a === null) - (b === null);
          const order = numeric ? a - b : a.localeCompare(b, "en", { numeric: true });
          return falling ? -order : order;
        };
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        body.append(...[...body.rows].sort(compare));
      });
    });
  };

  const choosable = (group, place) => {
    const parts = [...group.children].filter((part) => part.classList.contains("choice"));
    if (parts.length < 2) return;
    const select = document.createElement("select");
    for (const part of parts) select.add(new Option(part.dataset.label));
    const label = document.createElement("label");
    label.className = "chooser";
    label.append(`Show ${group.dataset.label}`, select);
    const show = () => parts.forEach((part, index) => (part.hidden = index !== select.selectedIndex));
    group.prepend(label);
    if (document.body.dataset.state) { // a page that follows a run is reloaded, and keeps what was chosen
      const kept = Number(sessionStorage.getItem(`choice ${place}`));
      select.selectedIndex = kept < parts.length ? kept : 0;
      select.addEventListener("change", () => sessionStorage.setItem(`choice ${place}`, select.selectedIndex));
    }
    select.addEventListener("change", show);
    show();
  };

  const paint = (dark) => {
    const ink = dark ? "#e6e8ea" : "#1c2024";
    const soft = dark ? "#a3abb3" : "#5b646d";
    const rule = dark ? "#454d54" : "#d8dce0";
    for (const doc of window.Bokeh ? Bokeh.documents : []) {
      for (const model of doc.all_models) {
        if (model.type.endsWith("Axis"))
          model.setv({ axis_label_text_color: soft, major_label_text_color: soft, axis_line_color: rule,
            major_tick_line_color: rule });
        else if (model.type === "Grid") model.setv({ grid_line_color: rule });
        else if (model.type === "Legend") model.setv({ label_text_color: ink, title_text_color: ink });
      }
    }
  };

  const start = () => {
    document.querySelectorAll("table.sortable").forEach(sortable);
    document.querySelectorAll(".choices").forEach(choosable);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => paint(scheme.matches));
    addEventListener("beforeprint", () => paint(false));
    addEventListener("afterprint", () => paint(scheme.matches));
    let tries = 100;
    const waiting = () => {
      const ready = window.Bokeh && Bokeh.documents.length > 0;
      if (ready) paint(scheme.matches);
      else if (tries-- > 0 && window.Bokeh) setTimeout(waiting, 100);
    };
    waiting();
    const state = document.body.dataset.state;
    if (state) setInterval(() => {
      fetch("/state", { cache: "no-store" }).then((answer) => answer.text()).then((now) => {
        if (now !== state) location.reload();
      }, () => undefined);
    }, 3000);
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
  else start();
})();
