"use strict";
const JSON_BODY = { "Content-Type": "application/json" };
// What a form says, as JSON: a field is grouped by its data-group and read by its data-as.
const told = (form, submitter) => {
  const record = Object.create(null);
  for (const field of [...form.elements, ...(submitter?.name ? [submitter] : [])]) {
    if (!field.name || field.closest("[hidden]") || (field.type === "submit" && field !== submitter)) continue;
    let place = record;
    for (const step of JSON.parse(field.closest("[data-group]")?.dataset.group || "[]")) place = place[step] ??= Object.create(null);
    const as = field === submitter ? "json" : field.dataset.as, text = as === "text" ? field.value : field.value.trim();
    if (field.type === "checkbox") {
      if (field.checked && field.hasAttribute("value")) (place[field.name] ??= []).push(field.value);
      else if (field.checked) place[field.name] = true;
    } else if (as === "lines") place[field.name] = text.split("\n").map((line) => line.trim()).filter(Boolean);
    else if (as === "numbers" && text) place[field.name] = text.split(/[;\s]+/).map((one) => Number(one.replace(",", ".")));
    else if (as === "json" && text) place[field.name] = JSON.parse(text);
    else if (text) place[field.name] = text;
  }
  return JSON.stringify(record);
};
// Forms are sent without leaving the page: what is wrong is said there, and no edit is lost.
document.addEventListener("submit", async (event) => {
  const form = event.target, then = form.dataset.then;
  if (!then) return;
  event.preventDefault();
  const alert = form.querySelector("[role=alert]") || form.appendChild(document.createElement("div"));
  alert.setAttribute("role", "alert");
  alert.className = "notice bad";
  alert.hidden = true;
  form.querySelectorAll("button").forEach((one) => { one.disabled = true; });
  try {
    const answer = await fetch(form.action, { method: "POST", body: told(form, event.submitter), headers: JSON_BODY });
    const found = await answer.json();
    if (answer.ok) { location.assign(then.replace(/{(\w+)}/g, (_, key) => found[key])); return; }
    alert.textContent = found.message;
  } catch (error) {
    alert.textContent = error instanceof SyntaxError ? `Not valid JSON: ${error.message}` : "The service does not answer. Nothing was lost; try again.";
  }
  alert.hidden = false;
  alert.tabIndex = -1;
  alert.focus();
  form.querySelectorAll("button").forEach((one) => { one.disabled = false; });
});
document.addEventListener("input", (event) => {
  event.target.form?.querySelectorAll("[role=alert]").forEach((one) => { one.hidden = true; });
});
// A page that waits for a worker looks again every second, without losing the place.
const refresh = async () => {
  const part = document.querySelector("[data-refresh]");
  if (!part) return;
  try {
    const answer = await fetch(location.href);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (answer.url !== location.href || !next.querySelector("[data-refresh]")) { location.assign(answer.url); return; }
    part.replaceWith(next.querySelector("[data-refresh]"));
  } catch { /* the service is back in a moment */ }
  setTimeout(refresh, 1000);
};
setTimeout(refresh, 1000);
// The price of a request, while it is written.
const ask = document.querySelector("form[data-preview]");
if (ask) {
  const cost = document.getElementById("cost"), field = document.getElementById("epsilon");
  let timer, newest = 0;
  const preview = async () => {
    const mine = ++newest;
    cost.setAttribute("aria-busy", "true");
    try {
      const body = JSON.stringify({ ...JSON.parse(told(ask)), purpose: "preview" });
      const answer = await fetch(ask.dataset.preview, { method: "POST", body, headers: JSON_BODY });
      const text = await answer.text();
      if (mine !== newest) return;
      const found = new DOMParser().parseFromString(text, "text/html");
      cost.replaceChildren(...(answer.ok ? found.body.childNodes : found.querySelectorAll(".notice")));
    } catch { /* an older price stays until the next change */ }
    cost.removeAttribute("aria-busy");
  };
  const later = () => { clearTimeout(timer); timer = setTimeout(preview, 350); };
  ask.addEventListener("input", later);
  cost.addEventListener("click", (event) => {
    if (!event.target.dataset.epsilon) return;
    field.value = event.target.dataset.epsilon;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  later();
}
// Which settings belong to what is asked.
const kind = document.getElementById("kind");
const show = () => document.querySelectorAll("[data-kinds]").forEach((part) => {
  part.hidden = !part.dataset.kinds.split(" ").includes(kind.value);
});
const epsilon = document.getElementById("epsilon");
if (kind) { // until it is edited, epsilon is what such a release usually needs
  kind.addEventListener("change", () => {
    if (epsilon.value === epsilon.defaultValue && kind.value === "statistic") epsilon.value = "0.1";
    show();
  });
  show();
}
// Charts by Vega-Lite, in the colours of the page; its interpreter needs no code from strings.
const draw = async () => {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const axis = { labelColor: of("--quiet"), titleColor: of("--quiet"), gridColor: of("--rule"), domainColor: of("--quiet"), tickColor: of("--quiet"), labelLimit: 90, titleFontWeight: "normal" };
  const colours = [of("--accent"), of("--blue"), of("--good"), of("--violet"), of("--warn"), of("--quiet")];
  const config = { background: null, font: "system-ui, sans-serif", axis, view: { stroke: null }, title: { color: of("--ink"), anchor: "start", fontSize: 14 },
    legend: { labelColor: of("--ink"), titleColor: of("--quiet"), orient: "bottom", columns: 1, labelLimit: 320 },
    mark: { color: of("--accent") }, rule: { color: of("--accent") }, range: { category: colours } };
  for (const place of document.querySelectorAll("[data-chart]")) {
    const told = JSON.parse(place.dataset.chart);
    const width = Math.max(place.clientWidth - 24, 200);
    const spec = vega.compile({ ...told, width, height: 190, autosize: { type: "fit-x", contains: "padding" }, config }).spec;
    const view = new vega.View(vega.parse(spec, null, { ast: true }), { expr: vega.expressionInterpreter, renderer: "svg" });
    place.replaceChildren();
    await view.initialize(place).runAsync();
    place.querySelector("svg")?.setAttribute("aria-label", told.title);
  }
};
if (document.querySelector("[data-chart]")) {
  const begin = () => draw().catch((error) => console.error(error));
  begin();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", begin);
  let wait;
  window.addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(begin, 250); });
}
