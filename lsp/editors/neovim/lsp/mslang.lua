-- The server's configuration for `vim.lsp.enable` (Neovim 0.11 and later).
return {
  cmd = vim.g.mslang_command or { "mslang", "lsp" },
  filetypes = { "mslang" },
  root_markers = { ".git" },
}
