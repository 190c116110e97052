// The report: deflated JSON in base64, inside the page.

async function readReport() {
  if (typeof DecompressionStream === "undefined")
    throw new Error(
        "This page needs a browser of 2023 or later: this one cannot inflate the page's data " +
        "(it has no DecompressionStream).");
  const text = document.getElementById("report").textContent.trim();
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const report = JSON.parse(await new Response(stream).text());
  if (report.format !== "cleave-page") throw new Error("The data of this page is not a report of cleave.");
  if (report.version !== 1)
    throw new Error(`The data of this page has version ${report.version}, and the page reads version 1.`);
  return report;
}
