"use strict";
// The table of instances: filters, sorts by every column, shows one page of rows at a time. Without this script the
// table stands there whole.
(() => {
  const byId = (id) => document.getElementById(id);
  const table = byId("table");
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const verdictAt = 4;
  const collator = new Intl.Collator(undefined, { numeric: true });
  const rows = Array.from(body.rows, (element, order) => ({
    element,
    order,
    family: element.dataset.f,
    verdict: element.cells[verdictAt].textContent,
    text: element.textContent.toLowerCase(),
  }));
  const text = byId("filter-text"), verdict = byId("filter-verdict"), family = byId("filter-family");
  const size = byId("page-size"), shown = byId("shown"), previous = byId("previous"), next = byId("next");
  let matching = rows, page = 0, column = -1, descending = false;

  // numbers stand in data-v; what is missing goes last, whichever way the column is sorted
  const value = (row) => {
    const cell = row.element.cells[column];
    return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent || null;
  };
  const sorted = (list) => {
    if (column < 0) return list;
    const keyed = list.map((row) => ({ row, key: value(row) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.row.order - b.row.order;
      const by = typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key
        : collator.compare(String(a.key), String(b.key));
      return (descending ? -by : by) || a.row.order - b.row.order;
    });
    return keyed.map((item) => item.row);
  };

  const draw = () => {
    const per = Number(size.value), pages = Math.max(1, Math.ceil(matching.length / per));
    page = Math.min(page, pages - 1);
    const first = page * per, part = matching.slice(first, first + per);
    body.replaceChildren(...part.map((row) => row.element));
    const of = matching.length === rows.length ? "" : ` (${rows.length} in all)`;
    shown.textContent = part.length ? `${first + 1} to ${first + part.length} of ${matching.length}${of}`
      : `no instance matches${of}`;
    previous.disabled = page === 0;
    next.disabled = page >= pages - 1;
  };
  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = sorted(rows.filter((row) =>
      (!verdict.value || row.verdict === verdict.value) && (!family.value || row.family === family.value) &&
      words.every((word) => row.text.includes(word))));
    page = 0;
    draw();
  };
  const sortBy = (at) => {
    descending = column === at && !descending;
    column = at;
    heads.forEach((head, i) => {
      if (i === at) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    filter();
  };

  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sortBy(at));
    head.replaceChildren(button);
  });
  let waiting = 0;
  text.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); });
  for (const select of [verdict, family]) select.addEventListener("change", filter);
  size.addEventListener("change", () => { page = 0; draw(); });
  previous.addEventListener("click", () => { page -= 1; draw(); });
  next.addEventListener("click", () => { page += 1; draw(); });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").hidden = false;
  byId("pager").hidden = false;
  filter();
})();
