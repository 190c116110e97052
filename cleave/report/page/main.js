// The page: reads the report, and goes where the address says. "#collectives&change=3", "#op=dot_general.3".

const app = {
  report: null,
  plans: [],
  route: {},
  views: new Map(),
  frame: null,
  started: performance.now(),
  ready: 0
};

const ROUTE_FIELDS = ["op", "arg", "change", "plan", "q"];

function readRoute(hash) {
  const route = {view: null, op: null, arg: null, change: null, plan: null, q: null};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    try {
      if (at < 0)
        route.view = decodeURIComponent(part) || null;
      else if (ROUTE_FIELDS.includes(part.slice(0, at)))
        route[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch {
      // A part of the address that is no text says nothing.
    }
  }
  return route;
}

function routeText(route) {
  const fields =
      ROUTE_FIELDS.filter((field) => route[field] !== null && route[field] !== undefined && route[field] !== "");
  return "#" +
      [route.view, ...fields.map((field) => `${field}=${encodeURIComponent(route[field])}`)].filter(Boolean).join("&");
}

// Where the page is, with some of it changed.
function go(change) {
  const text = routeText({...app.route, ...change});
  if (text !== location.hash) location.hash = text;
  applyRoute();
}

function currentPlan() {
  const wanted = Number(app.route.plan);
  return app.plans[Number.isInteger(wanted) && wanted >= 0 && wanted < app.plans.length ? wanted : 0] ?? null;
}

function applyRoute() {
  const before = app.route;
  app.route = readRoute(location.hash);
  const known = app.frame.views.map((view) => view.id);
  if (!known.includes(app.route.view)) app.route.view = known.includes(before.view) ? before.view : known[0];
  app.frame.show(app.route);
}

async function start() {
  const place = document.getElementById("page");
  try {
    app.report = await readReport();
  } catch (error) {
    replaceChildren(place, el("p.fatal", {role: "alert"}, error.message));
    return;
  }
  app.plans = app.report.plans.map((data, i) => new PlanModel(data, i));
  document.body.append(hatchPatterns());
  app.frame = makeFrame(app.report, place);
  addEventListener("hashchange", applyRoute);
  applyRoute();
  app.ready = performance.now();
}

start();
