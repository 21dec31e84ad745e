// Bundle the front end into one classic script, one style sheet and the frame of the document.
// `node build.mjs --check` only compares with what is committed.

import {readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {build} from 'esbuild';

const palette = JSON.parse(readFileSync(new URL('../../report/templates/palette.json', import.meta.url), 'utf8'));

/** The colours of a theme as CSS variables. */
function variables(theme) {
  const page = Object.entries(palette.page[theme]).map(([name, colour]) => `--${name}:${colour}`);
  const inks = Object.entries(palette.inks).map(([name, ink]) => `--${name}:${ink[theme]}`);
  return [...page, ...inks].join(';');
}

const themes = `:root{${variables('light')}}
@media (prefers-color-scheme:dark){:root{${variables('dark')}}}`;

const root = new URL('.', import.meta.url).pathname;
const shared = {absWorkingDir: root, bundle: true, minify: true, write: false, logLevel: 'warning', legalComments: 'none', charset: 'utf8'};
const script = await build({...shared, entryPoints: ['src/main.js'], format: 'iife', target: 'es2022', metafile: true});
const style = await build({
  ...shared,
  stdin: {
    contents: `@import "uplot/dist/uPlot.min.css";\n${themes}\n${readFileSync(`${root}/src/style.css`, 'utf8')}`,
    loader: 'css', resolveDir: root,
  },
});
/** The licences of what is bundled, which ask to be passed on. */
function licences() {
  const lock = JSON.parse(readFileSync(`${root}/package-lock.json`, 'utf8')).packages;
  const bundled = new Set(Object.keys(script.metafile.inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]));
  bundled.delete(undefined);
  return [...bundled].sort().map((name) => {
    const file = readdirSync(`${root}/node_modules/${name}`).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? readFileSync(`${root}/node_modules/${name}/${file}`, 'utf8').trim() : lock[`node_modules/${name}`].license;
    return `${name} ${lock[`node_modules/${name}`].version}\n\n${text}\n`;
  }).join('\n----\n\n');
}

const files = {
  // </script> inside a string would end the element that holds the script
  'explore.js': script.outputFiles[0].text.replaceAll('</script', '<\\/script'),
  'explore.css': style.outputFiles[0].text.trim() + '\n',
  'LICENSES.txt': licences(),
  'document.html': readFileSync(`${root}/src/document.html`, 'utf8'),
};
const check = process.argv.includes('--check');
let stale = false;
for (const [name, text] of Object.entries(files)) {
  const path = `${root}/bundle/${name}`;
  if (!check) writeFileSync(path, text);
  else if (readFileSync(path, 'utf8') !== text) {
    console.error(`${name} differs from what the sources give; run make page`);
    stale = true;
  }
}
process.exit(stale ? 1 : 0);
