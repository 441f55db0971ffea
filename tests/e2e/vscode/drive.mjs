// Drives VS Code (code-server) in headless Chromium, and prints what it saw as one JSON object.
//
// node drive.mjs CHROMIUM ADDRESS FOLDER: FOLDER holds gemm.ms, whose statement `j1.vectorize()` is made illegal here.
import { chromium } from "playwright-core";

const [program, address, folder] = process.argv.slice(2);
const seen = {};
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await browser.newPage({ viewport: { width: 1500, height: 900 } });
  page.setDefaultTimeout(120000);
  await page.goto(`${address}/?folder=${encodeURIComponent(folder)}`);
  await page.waitForSelector(".monaco-workbench");
  await page.locator(".explorer-folders-view .monaco-list-row:has-text('gemm.ms')").first().dblclick();
  await page.waitForSelector(".monaco-editor .view-line");
  seen.language = await text(page, "[id='status.editor.mode']", (found) => found === "mslang");
  seen.before = await problems(page, (found) => found === 0);

  await goTo(page, "vectorize", 0);
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.type("mm.k.parallel()", { delay: 30 });
  await page.keyboard.press("Escape");
  seen.illegal = await problems(page, (found) => found > 0);
  await page.waitForSelector(".squiggly-error");
  seen.squiggles = await page.locator(".squiggly-error").count();

  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  await page.keyboard.type("j1.vec", { delay: 60 });
  await page.waitForSelector(".suggest-widget.visible .monaco-list-row");
  seen.completions = await page.locator(".suggest-widget.visible .monaco-list-row .label-name").allInnerTexts();
  await page.keyboard.press("Enter");
  await page.keyboard.type("()");
  await page.keyboard.press("Escape");
  seen.after = await problems(page, (found) => found === 0);
  seen.line = await until(page, async () => {
    const lines = await page.locator(".view-line").allInnerTexts();
    return lines.map(plain).find((line) => line.includes("j1.vectorize()"));
  });

  await page.keyboard.press("Control+Alt+I");
  seen.program = await until(page, async () => {
    const lines = await page.locator(".editor-group-container").last().locator(".view-line").allInnerTexts();
    const shown = lines.map(plain).join("\n");
    return shown.includes("program gemm") && !shown.includes("use std.cpu") ? shown : undefined;
  });
  await page.waitForTimeout(3000);
  seen.preview = await problems(page, () => true);
} catch (error) {
  seen.error = `${error}`;
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));

/** The text with the spaces that the editor shows as other characters. */
function plain(line) {
  return line.replace(/\u00a0/g, " ").trim();
}

/** The first defined value of `look`. */
async function until(page, look) {
  for (let k = 0; k < 300; k++) {
    const found = await look();
    if (found !== undefined) return found;
    await page.waitForTimeout(300);
  }
  throw new Error(`never: ${look}`);
}

async function text(page, selector, wanted) {
  return until(page, async () => {
    const found = (await page.locator(selector).first().innerText()).trim();
    return wanted(found) ? found : undefined;
  });
}

/** How many errors and warnings the status bar counts, once `wanted` holds for it. */
async function problems(page, wanted) {
  return until(page, async () => {
    const shown = await page.locator("[id='status.problems']").first().getAttribute("aria-label");
    const found = (shown ?? "").startsWith("No Problems")
      ? 0
      : [...(shown ?? "").matchAll(/\d+/g)].reduce((sum, n) => sum + Number(n[0]), 0);
    return wanted(found) ? found : undefined;
  });
}

/** Put the cursor on the first line with a word. */
async function goTo(page, word) {
  await page.locator(".monaco-editor .view-lines").first().click();
  await page.keyboard.press("Control+F");
  await page.waitForSelector(".find-widget.visible");
  await page.keyboard.type(word);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
}
