"""The frame and the style of the page: no script, no network, light and dark, screen and paper."""

from __future__ import annotations

__all__ = ["PAGE", "STYLE"]

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Sfumato">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

STYLE = """
:root {
  --paper: #fbfaf7; --ink: #20242a; --quiet: #5f6671; --rule: #e4e0d8; --accent: #0d676d;
  --warn: #b45f06; --warn-ink: #6b3600; --warn-paper: #fdf0db;
  --serif: "Iowan Old Style", Charter, "Source Serif 4", Georgia, "Liberation Serif", serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171b; --ink: #e7e4de; --quiet: #a3a9b3; --rule: #31353c; --accent: #74c7c5;
    --warn: #e39a3b; --warn-ink: #ffdcab; --warn-paper: #33240f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
main { max-width: 47rem; margin: 0 auto; padding: clamp(2rem, 7vw, 5rem) 1.25rem 5rem; }
h1, h2, h3 { font-family: var(--serif); font-weight: 600; line-height: 1.2; text-wrap: balance; }
h1 { font-size: clamp(1.8rem, 5vw, 2.6rem); margin: 0 0 .6rem; letter-spacing: -.01em; }
h2 { font-size: 1.45rem; margin: 0 0 1.25rem; }
h3 { font-size: 1.15rem; margin: 0 0 .75rem; }
h4 { font-size: .875rem; font-weight: 600; margin: 1.5rem 0 .4rem; }
p { margin: 0 0 1rem; }
section, figure { margin: 4rem 0 0; }
article { padding: 2rem 0; border-top: 1px solid var(--rule); }
ul { margin: 0; padding-left: 1.15rem; }
li + li { margin-top: .3rem; }
.kicker { color: var(--accent); font-weight: 600; font-size: .875rem; margin: 0 0 .75rem; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; }
.calm { margin: 2rem 0 0; padding-left: 1rem; border-left: 3px solid var(--accent); }
.warning {
  margin: 2.25rem 0 0; padding: 1.25rem 1.4rem; border: 1px solid var(--warn);
  border-left-width: 6px; border-radius: 6px; background: var(--warn-paper);
  color: var(--warn-ink);
}
.warning h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
.chip {
  display: inline-block; padding: 0 .55em; border: 1px solid var(--accent); border-radius: 1em;
  color: var(--accent); font: 600 .75rem/1.55 system-ui, "Liberation Sans", sans-serif;
  white-space: nowrap; vertical-align: .1em;
}
.chip.unproved { color: var(--warn-ink); border-color: var(--warn); background: var(--warn-paper); }
.promise {
  font-family: var(--serif); font-size: 1.12rem; line-height: 1.55; margin: 0 0 1.5rem;
  padding-left: 1.1rem; border-left: 3px solid var(--accent);
}
.promise.unproved { border-color: var(--warn); }
table { width: 100%; border-collapse: collapse; font-size: .95rem; margin: 0 0 1.25rem; }
th, td { text-align: left; padding: .6rem 0 .6rem 1.25rem; border-top: 1px solid var(--rule);
  vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
thead th { border-top: 0; color: var(--quiet); font-weight: 500; font-size: .875rem; }
tbody th, tfoot th { font-weight: 500; }
tfoot th, tfoot td { border-top-color: var(--quiet); color: var(--quiet); }
.n { text-align: right; font-variant-numeric: tabular-nums lining-nums; white-space: nowrap; }
.number { white-space: nowrap; }
.events { margin: 0; }
.events td:first-child { white-space: nowrap; }
dl { margin: 0; font-size: .95rem; }
dl div { display: grid; grid-template-columns: minmax(9rem, 15rem) 1fr; gap: 1.25rem;
  padding: .45rem 0; border-top: 1px solid var(--rule); }
dt { color: var(--quiet); }
dd { margin: 0; font-variant-numeric: tabular-nums lining-nums; }
svg { display: block; max-width: 100%; height: auto; overflow: visible; }
svg text { font: 12.5px system-ui, "Liberation Sans", sans-serif; fill: var(--ink);
  font-variant-numeric: tabular-nums; }
svg .tick, svg .axis-name, svg .faint { fill: var(--quiet); }
svg .label { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg .grid { stroke: var(--rule); }
svg .base { stroke: var(--quiet); }
svg .ceiling { stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 6 5; }
svg .line { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; }
svg .mark { fill: var(--accent); stroke: var(--paper); stroke-width: 1.5; }
svg .mark.unproved { fill: var(--paper); stroke: var(--warn); stroke-width: 2.5; }
svg .bar { fill: var(--accent); opacity: .55; }
svg .bar-outline { fill: none; stroke: var(--ink); stroke-width: 1.25; }
svg .frame { fill: none; stroke: var(--rule); }
figcaption { margin-top: .75rem; }
.ledger td:nth-child(2) { white-space: nowrap; }
.hero { margin: 2.5rem 0 0; padding: 1.5rem 1.6rem; border: 1px solid var(--accent);
  border-left-width: 6px; border-radius: 6px; }
.hero.unproved { border-color: var(--warn); background: var(--warn-paper);
  color: var(--warn-ink); }
.hero p { margin: 0; }
.hero + .hero { margin-top: 1rem; }
.hero .sentence { font: 600 clamp(1.25rem, 3.6vw, 1.7rem)/1.4 var(--serif); margin: .6rem 0 0;
  text-wrap: pretty; }
.raw { display: inline-block; padding: .2em .7em; border: 1px solid var(--warn);
  border-radius: 4px; background: var(--warn-paper); color: var(--warn-ink); font-size: .875rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr));
  gap: 1.5rem 2rem; }
.gallery figure { margin: 0; }
code { font-size: .9em; }
.narrow { display: none; }
@media (max-width: 640px) {
  .wide { display: none; }
  .narrow { display: block; }
  .results thead { display: none; }
  .results tr { display: block; padding: 1rem 0; border-top: 1px solid var(--rule); }
  .results tfoot tr { border-top-color: var(--quiet); }
  .results th, .results td { padding: 0; border: 0; }
  .results th { display: block; padding-bottom: .35rem; }
  .results td { display: flex; justify-content: space-between; gap: 1rem; }
  .results td::before { content: attr(data-name); color: var(--quiet); white-space: normal;
    text-align: left; }
  .events th + th, .events td + td { padding-left: .9rem; }
  dl div { grid-template-columns: 1fr; gap: 0; }
}
@media print {
  :root { --paper: #fff; }
  main { max-width: none; padding: 0; }
  article, figure, .warning, tr { break-inside: avoid; }
  .warning, .chip { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
