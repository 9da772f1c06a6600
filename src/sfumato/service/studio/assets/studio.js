// The code of a one-time link stands behind '#', so that it is in no log; put it into its field.
"use strict";
const code = document.getElementById("token");
if (code && location.hash.length > 1) {
  code.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}
// A slider says its number: positions are hundredths of powers of ten.
const slider = document.getElementById("epsilon-slider");
const field = document.getElementById("epsilon");
if (slider && field) {
  slider.closest("[hidden]")?.removeAttribute("hidden");
  slider.addEventListener("input", () => {
    field.value = Number(Math.pow(10, slider.value / 100).toPrecision(2));
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  field.addEventListener("input", () => {
    if (field.value > 0) slider.value = Math.round(100 * Math.log10(field.value));
  });
}
// Which settings belong to what is asked.
const kind = document.getElementById("kind");
const show = () => document.querySelectorAll("[data-kinds]").forEach((part) => {
  part.hidden = !part.dataset.kinds.split(" ").includes(kind.value);
});
if (kind) { kind.addEventListener("change", show); show(); }
