#!/bin/sh
# What test_vscode.py needs besides Chromium and Node.js 20: VS Code as code-server, and what drives the browser.
# Install scripts of packages do not run, except those of the native modules that code-server cannot do without.
set -eu
cd "$(dirname "$0")"
npm install --ignore-scripts --no-audit --no-fund
npm rebuild argon2
cd node_modules/code-server/lib/vscode
npm install --ignore-scripts --no-audit --no-fund --omit=dev
npm rebuild native-watchdog @vscode/spdlog @parcel/watcher
cd ../../../../../../../lsp/editors/vscode
npm install --no-audit --no-fund
npm run package
