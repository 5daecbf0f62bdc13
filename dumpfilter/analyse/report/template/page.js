"use strict";
// Makes the tables of a report sortable, shows texts beside the pointer, and works out prices.
(() => {
  // Sort by a column: numbers descending, texts ascending. A second click reverses the order.
  function sortable(table) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("n");
        const was = head.getAttribute("aria-sort");
        const descending = was ? was === "ascending" : numbers;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        const key = (row) => (numbers ? Number(row.cells[column].dataset.key) : row.cells[column].textContent);
        const order = (a, b) => (numbers ? key(a) - key(b) : key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
        body.append(...[...body.rows].sort((a, b) => (descending ? order(b, a) : order(a, b))));
      });
    });
  }
  document.querySelectorAll("table.sortable").forEach(sortable);

  // Show the text of the attribute data-tip of what is under the pointer.
  const tip = document.createElement("div");
  tip.className = "tip floating";
  tip.hidden = true;
  document.body.append(tip);
  const shown = (event) => {
    const found = event.target instanceof Element && event.target.closest("[data-tip]");
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = found.dataset.tip;
    const [right, below] = [document.documentElement.clientWidth - tip.offsetWidth - 4, innerHeight - tip.offsetHeight - 4];
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, right))}px`;
    tip.style.top = `${Math.max(4, event.clientY + 16 > below ? event.clientY - tip.offsetHeight - 10 : event.clientY + 16)}px`;
  };
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, shown);
  addEventListener("scroll", () => (tip.hidden = true), { passive: true });
  addEventListener("keydown", (event) => event.key === "Escape" && (tip.hidden = true));

  // Multiply the gigabytes of a month by the price that the reader types in.
  const price = document.getElementById("price");
  if (!price) return;
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const small = new Intl.NumberFormat("en", { maximumSignificantDigits: 2, minimumSignificantDigits: 2 });
  function priced() {
    const each = Number(price.value);
    for (const cell of document.querySelectorAll("[data-gigabytes]")) {
      const cost = each * Number(cell.dataset.gigabytes);
      cell.textContent = price.value !== "" && Number.isFinite(cost) && each >= 0 ? (cost > 0 && cost < 0.05 ? small : format).format(cost) : "–";
    }
  }
  price.addEventListener("input", priced);
  priced();
})();
