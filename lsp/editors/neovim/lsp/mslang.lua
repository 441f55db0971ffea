-- Neovim 0.11 and later: put this folder on the runtime path, then `vim.lsp.enable("mslang")`.
return {
  cmd = { "mslang", "lsp" },
  filetypes = { "mslang" },
  root_markers = { "mslang.toml", ".git" },
}
