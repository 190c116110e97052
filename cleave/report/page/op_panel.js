// The panel at the side: an op, an argument or a change of layout, with all that the report says about it.

function showPanel(side, plan, route) {
  const key = plan ? JSON.stringify([plan.index, route.op, route.arg, route.change]) : "";
  if (side.dataset.key === key) return;
  side.dataset.key = key;
  let content = null;
  if (plan && route.op !== null)
    content = opPanel(plan, route.op);
  else if (plan && route.arg !== null)
    content = argPanel(plan, route.arg);
  else if (plan && route.change !== null)
    content = changePanel(plan, Number(route.change));
  side.hidden = !content;
  if (content) replaceChildren(side, content);
  side.scrollTop = 0;
}

function panelHead(title, ...about) {
  return el(
      "header", null,
      el("div", null, el("h2", null, title),
         el("div.soft", {style: {"font-size": "13px", "overflow-wrap": "anywhere"}}, about)),
      el("button",
         {onclick: () => go({op: null, arg: null, change: null}), "aria-label": "Close", title: "Close (Esc)"}, "✕"));
}

const section = (title, ...content) => [el("h3", null, title), ...content];

// One value: its drawing, its name, its type and its layout.
function valueCard(plan, title, typePlace, specPlace, ...more) {
  return el(
      "div", {style: {display: "flex", gap: "10px", "align-items": "center", padding: "3px 0"}},
      drawnLayout(plan, typeof title === "string" ? title : title.textContent, typePlace, specPlace, 108, 46),
      el("div", {style: {"min-width": 0}}, el("div", {style: {display: "flex", "min-width": 0}}, title),
         el("div.mono.softer", {style: {"overflow-wrap": "anywhere"}}, plan.typeText(typePlace)),
         layoutText(plan, specPlace), more));
}

function changeLine(plan, change, withOp = false) {
  const {changes} = plan, exposed = changes.exposed[change];
  return el(
      "div", {
        style: {
          padding: "5px 0 5px 10px",
          "border-left": "3px solid",
          "border-image": `${
              axesBackground(plan.changeAxes(change)).startsWith("repeating") ?
                  axesBackground(plan.changeAxes(change)) :
                  `linear-gradient(${axisVariable(plan.changeAxes(change)[0] ?? -1)} 0 0)`} 1`,
          margin: "4px 0"
        },
        "data-change": change
      },
      el("div.row", {style: {gap: "8px"}}, changeLink(plan, change),
         el("span", null, secondsText(plan.changeSeconds(change))),
         changes.stream[change] ? el(exposed > 0 ? "span.badge.bad" : "span.badge", null,
                                     exposed > 0 ? `${secondsText(exposed)} exposed` : "hidden") :
                                                   el("span.badge", null, "local"),
         changes.bytes[change] ? el("span.softer", null, bytesText(changes.bytes[change]) + " received") : null),
      withOp && changes.op[change] >= 0 ? el("div", null, "for ", opLink(plan, changes.op[change])) : null,
      changes.from[change] < 0 && changes.to[change] < 0 ?
          null :
          el("div", null, layoutText(plan, changes.from[change]), " → ", layoutText(plan, changes.to[change])),
      el("div.soft", {style: {"font-size": "12.5px"}}, plan.text(changes.reason[change])));
}

function opFacts(plan, op) {
  const {ops, data} = plan, seconds = plan.opSeconds(op), events = plan.eventsByOp.of(op);
  const own = plan.changesOf(op), changeSeconds = own.reduce((sum, c) => sum + plan.changeSeconds(c), 0);
  const facts = [
    [
      "Compute",
      `${secondsText(seconds)}, ${percentText(seconds / data.totals.seconds)} of the sum` +
          (ops.times[op] !== 1 ? ` (${countText(ops.times[op])} × ${secondsText(ops.seconds[op])})` : "")
    ],
    ["Kernel", plan.text(ops.class[op])]
  ];
  if (own.length) facts.push(["Its collectives", secondsText(changeSeconds)]);
  if (events.length)
    facts.push([
      "Runs at",
      secondsText(data.schedule.events.start[events[0]]) +
          (data.schedule.events.critical[events[0]] ? ", on the critical chain" : "")
    ]);
  const steps = plan.stepOfOp.of(op);
  if (steps.length) {
    const step = steps[steps.length - 1];
    facts.push([
      "Memory there",
      `${bytesText(data.memory.held[step])} alive` +
          (data.memory.inside[step] > 0 ? `, ${bytesText(data.memory.inside[step])} inside` : "") +
          (step === data.memory.program_peak_step ? " (the peak)" : "")
    ]);
  }
  const path = plan.blockPath(ops.block[op]);
  if (path.length) facts.push(["Block", path.join(" › ")]);
  const group = data.groups[ops.group[op]];
  if (group && group.count > 1)
    facts.push(["Like it", `${plural(group.count, "op")}, ${secondsText(group.seconds)} together`]);
  return el(
      "table.plain", {style: {"font-size": "13px"}},
      el("tbody", null,
         facts.map(
             ([name, value]) =>
                 el("tr", null, el("td.soft", {style: {width: "118px", padding: "3px 8px 3px 0", border: 0}}, name),
                    el("td", {style: {padding: "3px 0", border: 0, "overflow-wrap": "anywhere"}}, value)))));
}

function memoryAtOp(plan, op) {
  const {memory} = plan.data, steps = plan.stepOfOp.of(op);
  if (!steps.length) return null;
  const first = steps[0], last = steps[steps.length - 1], {buffers} = memory, made = [];
  for (let b = 0; b < buffers.first.length; ++b)
    if (buffers.first[b] >= first && buffers.first[b] <= last && buffers.cls[b] > 2) made.push(b);
  if (!made.length) return null;
  return section(
      "Memory that begins here",
      made.sort((a, b) => buffers.bytes[b] - buffers.bytes[a])
          .slice(0, 8)
          .map(
              (b) =>
                  el("div.row", {style: {gap: "8px", "font-size": "13px", padding: "2px 0"}},
                     el("i.swatch", {style: {background: memoryVariable(buffers.cls[b])}}),
                     el("b", {style: {"font-weight": 560}}, bytesText(buffers.bytes[b])),
                     el("span.mono.cut", {style: {flex: "1"}, title: plan.text(buffers.label[b])},
                        plan.text(buffers.label[b])),
                     el("span.softer", null, `for ${plural(buffers.last[b] - buffers.first[b] + 1, "step")}`))));
}

function opPanel(plan, name) {
  const op = plan.opPlaces.get(name);
  if (op === undefined)
    return [panelHead(name), el("div.body", null, el("p", null, "There is no op of this name in the plan."))];
  const {ops} = plan, own = [...plan.changesOf(op)], users = plan.usersOf(op);
  const operands = ops.operands[op].map((source, i) => {
    const has = plan.sourceSpec(source), reads = ops.in[op][i];
    return valueCard(
        plan, sourceLink(plan, source), plan.sourceType(source), reads,
        has >= 0 && has !== reads && plan.spec(has).text !== plan.spec(reads)?.text ?
            el("div.softer", {style: {"font-size": "12px"}}, "lies as ", layoutText(plan, has)) :
            null);
  });
  const results = ops.out[op].map(
      (spec, i) => valueCard(
          plan, el("span.mono", null, ops.out[op].length > 1 ? `result ${i}` : "result"), i === 0 ? ops.type[op] : -1,
          spec));
  const many = (cards, noun) =>
      (cards.length > 12 ?
           [
             cards.slice(0, 12),
             el("div.softer", null, `and ${plural(cards.length - 12, "more " + noun, `more ${noun}s`)}`)
           ] :
           cards);
  return [
    panelHead(
        name, plan.opKind(op), plan.text(ops.line[op]) ? [" at ", el("span.mono", null, plan.text(ops.line[op]))] : ""),
    el("div.body", null, el("div", {style: {"margin-top": "10px"}}, opFacts(plan, op)),
       operands.length ? section(plural(operands.length, "operand"), many(operands, "operand")) : null,
       results.length ? section(plural(results.length, "result"), many(results, "result")) : null,
       own.length ? section(
                        plural(own.length, "change of layout", "changes of layout") + " for it",
                        own.map((change) => changeLine(plan, change))) :
                    null,
       waysSection(plan, op), memoryAtOp(plan, op),
       users.length ?
           section(
               `Read by ${plural(users.length, "op")}`,
               users.slice(0, 20).map((user) => el("div", {style: {display: "flex"}}, opLink(plan, user))),
               users.length > 20 ? el("div.softer", null, `and ${countText(users.length - 20)} more`) : null) :
           null,
       el("div.row", {style: {"margin-top": "20px"}},
          el("button", {onclick: () => showInGraph(plan, op)}, "Show in the graph")))
  ];
}

function argPanel(plan, name) {
  const arg = plan.argPlaces.get(name);
  if (arg === undefined)
    return [panelHead(name), el("div.body", null, el("p", null, "There is no argument of this name in the plan."))];
  const {args, changes} = plan, users = plan.usersOf(-1 - arg), group = plan.data.arg_groups[args.group[arg]];
  const own = [];
  for (let c = 0; c < plan.numChanges; ++c)
    if (sourceOp(changes.source[c]) === -1 - arg) own.push(c);
  return [
    panelHead(name, plan.text(args.role[arg])),
    el("div.body", null,
       el("div", {style: {"margin-top": "10px"}},
          valueCard(
              plan, el("span", null, bytesText(localBytes(plan, args.type[arg], args.spec[arg])) + " on a device"),
              args.type[arg], args.spec[arg])),
       el("p.soft", null, layoutWords(plan.mesh, plan.spec(args.spec[arg])) + "."),
       group ?
           [
             el("p", null, axesText(plan, group.pattern)),
             group.count > 1 ? el("p.softer", null, `One of ${countText(group.count)} alike: ${group.name}`) : null
           ] :
           null,
       own.length ? section(
                        plural(own.length, "change of layout", "changes of layout") + " of it",
                        own.slice(0, 20).map((change) => changeLine(plan, change, true))) :
                    null,
       users.length ? section(
                          `Read by ${plural(users.length, "op")}`,
                          users.slice(0, 30).map((user) => el("div", {style: {display: "flex"}}, opLink(plan, user)))) :
                      null)
  ];
}

function changePanel(plan, change) {
  if (!Number.isInteger(change) || change < 0 || change >= plan.numChanges)
    return [
      panelHead("No such change"),
      el("div.body", null, el("p", null, "The plan has no change of layout with this number."))
    ];
  const {changes} = plan, op = changes.op[change], type = changes.type[change], events = plan.eventsByChange.of(change);
  const fact = (name, ...value) =>
      el("tr", null, el("td.soft", {style: {width: "118px", padding: "3px 8px 3px 0", border: 0}}, name),
         el("td", {style: {padding: "3px 0", border: 0, "overflow-wrap": "anywhere"}}, value));
  return [
    panelHead(
        plan.changeTitle(change), op >= 0 ? ["for ", plan.opName(op)] : "for a result",
        plan.text(changes.line[change]) ? [" at ", el("span.mono", null, plan.text(changes.line[change]))] : ""),
    el("div.body", null,
       section(
           "Why",
           el("p", {class: "reason", style: {margin: 0, "font-size": "14.5px"}}, plan.text(changes.reason[change]))),
       changes.from[change] < 0 && changes.to[change] < 0 ?
           section("In", valueCard(plan, sourceLink(plan, changes.source[change]), type, -1)) :
           [
             section("From", valueCard(plan, sourceLink(plan, changes.source[change]), type, changes.from[change])),
             section(
                 "To",
                 valueCard(plan, op >= 0 ? opLink(plan, op) : el("span", null, "a result"), type, changes.to[change]))
           ],
       section(
           "What it costs",
           el("table.plain", {style: {"font-size": "13px"}},
              el("tbody", null,
                 fact(
                     "Time", secondsText(plan.changeSeconds(change)),
                     changes.times[change] !== 1 ?
                         ` (${countText(changes.times[change])} × ${secondsText(changes.seconds[change])})` :
                         "",
                     `, ${percentText(plan.changeSeconds(change) / plan.data.totals.seconds)} of the sum`),
                 fact("Exposed", secondsText(changes.exposed[change])),
                 fact("Hidden", secondsText(changes.hidden[change])),
                 fact("Received", bytesText(changes.bytes[change]), " by a device, once"),
                 fact(
                     "Along",
                     plan.changeAxes(change).length ? plan.changeAxes(change).map((axis) => axisChip(plan, axis)) :
                                                      plan.text(changes.axes[change])),
                 fact("Stream", plan.data.schedule.streams[changes.stream[change]] ?? ""),
                 events.length ? fact(
                                     "Runs at", secondsText(plan.data.schedule.events.start[events[0]]),
                                     plan.data.schedule.events.critical[events[0]] ? ", on the critical chain" : "") :
                                 null))),
       op >= 0 ? waysSection(plan, op) : null)
  ];
}
