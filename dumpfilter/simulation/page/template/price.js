"use strict";
// Multiplies the gigabytes of a month by the price that the reader types in.
(() => {
  const price = document.getElementById("price");
  if (!price) return;
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  function show() {
    const each = Number(price.value);
    for (const cell of document.querySelectorAll("[data-gigabytes]")) {
      const cost = each * Number(cell.dataset.gigabytes);
      cell.textContent = price.value !== "" && Number.isFinite(cost) && each >= 0 ? format.format(cost) : "–";
    }
  }
  price.addEventListener("input", show);
  show();
})();
