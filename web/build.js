// Bundles the pages' scripts and styles into the package. The first line of each bundle has the checksum of all that it
// was made from, so that a test can tell a bundle that is older than its source.
import { createHash } from "node:crypto";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = fileURLToPath(new URL("../src/procrustes_kge/figures/web/", import.meta.url));
const PAGES = ["map"];

function sources() {
  const found = readdirSync(`${here}src`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(here.length));
  return ["build.js", "package-lock.json", "package.json", ...found].sort();
}

function checksum() {
  const digest = createHash("sha256");
  for (const path of sources()) digest.update(`${path}\0`).update(readFileSync(here + path)).update("\0");
  return digest.digest("hex");
}

const banner = `/* procrustes-kge, built from web/ with sha256 ${checksum()} */`;
for (const page of PAGES) {
  for (const kind of ["js", "css"]) {
    const made = await build({
      entryPoints: [`${here}src/${page}/${page}.${kind}`],
      bundle: true,
      minify: true,
      format: "iife",
      target: "es2020",
      charset: "ascii",
      legalComments: "inline",
      write: false,
    });
    writeFileSync(`${target}${page}.${kind}`, `${banner}\n${made.outputFiles[0].text}`);
  }
}
copyFileSync(`${here}node_modules/three/LICENSE`, `${target}three-LICENSE.txt`);
