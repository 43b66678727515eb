// Asks for news while the page is visible, draws the charts, and tells screen readers what has changed.
"use strict";

(() => {
  const EVERY = 2000; // milliseconds between two requests
  const QUIET = 20000; // the least time between two announcements
  const COLORS = 8;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const find = (id) => document.getElementById(id);
  const visible = () => document.visibilityState === "visible";
  const whole = (value) => Math.round(value).toLocaleString("en");

  // ---------------------------------------------------------------- ticks

  let lastAnswer = Date.now();

  function lost(isLost) {
    const line = find("lost");
    if (!isLost) {
      lastAnswer = Date.now();
      line.hidden = true;
    } else if (line.hidden) {
      const since = new Date(lastAnswer).toLocaleTimeString("en", { hour12: false });
      line.textContent = `No answer from the service since ${since}. What is shown may be old; trying again.`;
      line.hidden = false;
    }
  }

  function tick() {
    if (visible()) {
      document.body.dispatchEvent(new Event("tick"));
      drawCharts();
    }
  }

  document.addEventListener("htmx:sendError", () => lost(true));
  document.addEventListener("htmx:responseError", (event) => lost(event.detail.xhr.status >= 500));
  document.addEventListener("htmx:afterOnLoad", () => lost(false));
  document.addEventListener("visibilitychange", tick);
  if (find("poller")) setInterval(tick, EVERY);

  // ---------------------------------------------------------------- words for screen readers

  let said = null;
  let saidAt = Date.now();

  document.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.id !== "lead" || !find("said")) return;
    const alarm = find("alarm").querySelector(".alarm");
    const text = `${find("sentence").textContent} ${alarm ? alarm.textContent : ""}`.replace(/\s+/g, " ").trim();
    said ??= text;
    if (text !== said && Date.now() - saidAt > QUIET) {
      find("said").textContent = text;
      said = text;
      saidAt = Date.now();
    }
  });

  // ---------------------------------------------------------------- charts

  const plots = {};
  let latest = null;
  let asking = false;

  async function drawCharts() {
    const place = find("charts");
    if (!place || asking) return;
    asking = true;
    try {
      const answer = await fetch(place.dataset.url, { headers: { Accept: "application/json" } });
      if (answer.ok) {
        latest = await answer.json();
        draw(latest);
        lost(false);
      }
    } catch {
      lost(true);
    } finally {
      asking = false;
    }
  }

  function draw(data) {
    drawRibbons(data); // first, because the chart of shares takes its scale from them
    drawShares(data);
    drawRate(data);
    Object.entries(data.earned).forEach(([kind, path]) => drawEarned(`earned-${kind}`, kind, path));
  }

  function clock(_, splits) {
    return splits.map((split) => (split % 60 ? "" : new Date(1000 * split).toLocaleTimeString("en", { hour12: false, hour: "2-digit", minute: "2-digit" })));
  }

  function axis(more) {
    return {
      stroke: color("--soft"),
      font: `12px ${color("--sans")}`,
      grid: { stroke: color("--rule"), width: 1 },
      ticks: { show: false },
      ...more,
    };
  }

  function plot(id, options, values, what = "") {
    const place = find(id);
    if (plots[id] && plots[id].what !== what) remove(id); // there is a new arm, so lines and colors change
    if (plots[id]) {
      plots[id].setData(values);
    } else if (values[0].length > 1) {
      place.classList.add("drawn");
      const size = { width: place.clientWidth, height: place.clientHeight };
      plots[id] = new uPlot({ ...size, legend: { show: false }, ...options() }, values, place);
      plots[id].what = what;
    }
  }

  function remove(id) {
    plots[id].destroy();
    delete plots[id];
  }

  // Each series is the sum of the shares up to its arm. The band between two series has the arm's color.
  function drawShares(data) {
    const sums = [];
    for (const shares of data.shares.slice(0, data.names.length)) {
      const below = sums.at(-1);
      sums.push(shares.map((share, number) => share + (below ? below[number] : 0)));
    }
    find("shares").setAttribute("aria-label", `Shares of the arms over time. ${data.summary}`);
    // Each stretch is drawn at its end, the first one at its beginning too. The lowest band ends at a line at zero.
    const drawn = [data.upto, data.upto.map(() => 0), ...sums].map((line) => [line[0], ...line]);
    if (data.upto.length > 0) drawn[0][0] = 0;
    plot("shares", () => sharesOptions(data), data.upto.length > 0 ? drawn : [[], []], data.names.join());
  }

  function sharesOptions(data) {
    const names = data.names;
    const first = find("ribbons").querySelector("canvas");
    const left = first ? first.offsetLeft - find("ribbons").offsetLeft : 52;
    const right = first ? find("ribbons").clientWidth - left - first.clientWidth : 0;
    return {
      padding: [8, right, 0, 0],
      scales: { x: { time: false }, y: { range: [0, 1] } },
      axes: [
        axis({ values: (drawn, splits) => splits.map((split) => decisionLabel(drawn, split, right)), grid: { show: false }, size: 26, gap: 4 }),
        axis({ values: (_, splits) => splits.map((split) => `${Math.round(100 * split)} %`), size: left }),
      ],
      series: [
        {},
        { show: true, points: { show: false }, width: 0 },
        ...names.map((label) => ({
          label,
          width: 1,
          stroke: color("--paper"),
          points: { show: false },
        })),
      ],
      bands: names.map((_, number) => ({ series: [number + 2, number + 1], fill: `${color(`--c${number}`)}d0` })),
      cursor: { show: false },
    };
  }

  // A label that would be cut at the right edge is left out.
  function decisionLabel(drawn, split, room) {
    const cut = room < 20 && split > 0.93 * drawn.scales.x.max;
    return cut ? "" : split === 0 ? "start" : whole(split);
  }

  function drawRate(data) {
    const traffic = data.traffic;
    plot(
      "rate",
      () => ({
        scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
        axes: [axis({ grid: { show: false }, values: clock, size: 26, gap: 4 }), axis({ size: 40 })],
        series: [
          {},
          { label: "decisions", stroke: color("--c0"), width: 2, points: { show: false } },
          { label: "rewards", stroke: color("--c1"), width: 2, dash: [6, 4], points: { show: false } },
        ],
        cursor: { show: false },
      }),
      [traffic.times, traffic.decisions, traffic.rewards],
    );
  }

  // The average so far between the ends of its interval, and a line at zero.
  function drawEarned(id, kind, path) {
    plot(
      id,
      () => ({
        scales: { x: { time: false }, y: { range: () => latest.earned[kind].range } },
        axes: [
          axis({ grid: { show: false }, values: (_, splits) => splits.map((split) => whole(split)), size: 26, gap: 4 }),
          axis({ size: 56, values: (_, splits) => splits.map((split) => (split === 0 ? "0" : (split > 0 ? "+" : "") + split.toPrecision(2).replace("-", "−"))) }),
        ],
        series: [
          {},
          { stroke: color("--c0"), width: 2, points: { show: false } },
          { stroke: color("--c0"), width: 0, points: { show: false } },
          { stroke: color("--c0"), width: 0, points: { show: false } },
          { stroke: color("--ink"), width: 1, dash: [3, 3], points: { show: false } },
        ],
        bands: [{ series: [3, 2], fill: `${color("--c0")}40` }],
        cursor: { show: false },
      }),
      [path.upto, ...path.lines, path.upto.map(() => 0)],
    );
  }

  function drawRibbons(data) {
    const place = find("ribbons");
    const players = data.upto.length > 0 ? data.players : []; // a row of nothing for each of them says nothing
    while (place.children.length > players.length) place.lastElementChild.remove();
    players.forEach((player, number) => {
      const row = place.children[number] || place.appendChild(newRibbon());
      const ribbon = data.ribbons[number];
      row.children[0].firstElementChild.textContent = player;
      drawRibbon(row.children[1], ribbon, data);
      const [arm, share] = data.now[number];
      row.children[2].firstElementChild.textContent = arm < 0 ? `nothing ${ribbon.some(([each]) => each >= 0) ? "lately" : "yet"}` : `${data.names[arm]}, ${Math.round(100 * share)}\u00a0%`;
    });
  }

  function newRibbon() {
    const row = document.createElement("div");
    row.className = "ribbon";
    for (const [kind, name] of [["span", "who"], ["canvas", ""], ["span", "now"]]) {
      const part = document.createElement(kind);
      part.className = name;
      if (kind === "span") part.appendChild(document.createElement("bdi"));
      row.appendChild(part);
    }
    return row;
  }

  function drawRibbon(canvas, ribbon, data) {
    const scale = window.devicePixelRatio || 1;
    const width = Math.round(canvas.clientWidth * scale);
    const height = Math.round(canvas.clientHeight * scale);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const end = Math.max(data.upto.at(-1) ?? 1, 1);
    ribbon.forEach(([arm, share], number) => {
      if (arm < 0) return;
      const from = Math.round((width * number * data.size) / end);
      const to = Math.round((width * data.upto[number]) / end);
      context.globalAlpha = 0.15 + 0.85 * Math.max(0, (share - 1 / COLORS) / (1 - 1 / COLORS));
      context.fillStyle = color(`--c${arm}`);
      context.fillRect(from, 0, Math.max(to - from, 1), height);
    });
  }

  // ---------------------------------------------------------------- questions before something is done

  const dialog = find("dialog");
  let asker = ""; // the id of what opened the question

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== dialog) return;
    asker = event.detail.requestConfig.elt.id;
    dialog.showModal();
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.target === dialog) location.assign(event.detail.requestConfig.path); // which says what is wrong
  });
  dialog.addEventListener("click", (event) => {
    if (!event.target.closest("[data-close]")) return;
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("mousedown", (event) => { // beside it; selecting text in it may well end there
    const box = dialog.getBoundingClientRect();
    const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (event.target === dialog && !inside) dialog.close();
  });
  dialog.addEventListener("close", () => find(asker)?.focus()); // it may have been drawn anew meanwhile

  // ---------------------------------------------------------------- forms

  // To type a number chooses what the number is for.
  document.addEventListener("input", (event) => {
    const choice = event.target.closest("fieldset > .inline")?.previousElementSibling?.querySelector("[type=radio]");
    if (choice) choice.checked = true;
  });

  // What was sent is under way until the next page comes, and is not sent twice.
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button?.ariaBusy === "true") event.preventDefault();
    if (button && event.target.method === "post") button.ariaBusy = "true";
  });
  window.addEventListener("pageshow", () => document.querySelectorAll("[aria-busy]").forEach((each) => each.removeAttribute("aria-busy")));

  // ---------------------------------------------------------------- a sign-in link: /login#posse_1_…

  const token = find("token");
  if (token && location.hash.startsWith("#posse_")) {
    token.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname + location.search); // so that it is in no history
    if ("submit" in token.form.dataset) token.form.submit();
  }

  // ---------------------------------------------------------------- wide tables

  // The edge behind which there is more of a table fades.
  function fade() {
    for (const each of document.querySelectorAll(".scroller")) {
      each.classList.toggle("more", each.scrollWidth - each.clientWidth - each.scrollLeft > 1);
    }
  }

  document.addEventListener("scroll", fade, true);
  document.addEventListener("htmx:oobAfterSwap", fade);
  window.addEventListener("resize", fade);
  fade();

  // ---------------------------------------------------------------- sizes and colors change

  function redraw() {
    Object.keys(plots).forEach(remove);
    if (latest) draw(latest);
  }

  let settled = 0;
  window.addEventListener("resize", () => {
    clearTimeout(settled);
    settled = setTimeout(redraw, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  drawCharts();
})();
