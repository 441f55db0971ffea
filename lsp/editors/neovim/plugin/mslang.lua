-- :MslangProgram opens a split that follows the cursor: the program after the schedule statement there, and the trace.
local group = vim.api.nvim_create_augroup("mslang", { clear = true })
local view

local function client_of(buffer)
  local get = vim.lsp.get_clients or vim.lsp.get_active_clients
  for _, client in ipairs(get({ bufnr = buffer })) do
    if client.name == "mslang" then
      return client
    end
  end
end

local function refresh(buffer)
  local client = client_of(buffer)
  if not (client and view and vim.api.nvim_buf_is_valid(view)) then
    return
  end
  -- Columns are counted in the encoding that client and server agreed on, not in bytes.
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.seed = 0
  client.request("mslang/irAt", params, function(_, answer)
    local text = "# The cursor is not in a schedule."
    if answer then
      local head = answer.error and ("# " .. answer.error:gsub("\n", "\n# ") .. "\n") or ""
      text = head .. answer.after .. "\n# The trace so far:\n" .. answer.trace
    end
    vim.api.nvim_buf_set_lines(view, 0, -1, false, vim.split(text, "\n"))
  end, buffer)
end

vim.api.nvim_create_user_command("MslangProgram", function()
  local buffer = vim.api.nvim_get_current_buf()
  view = vim.api.nvim_create_buf(false, true)
  vim.bo[view].filetype = "mslang"
  vim.cmd("rightbelow vsplit")
  vim.api.nvim_win_set_buf(0, view)
  vim.cmd("wincmd p")
  vim.api.nvim_create_autocmd({ "CursorHold", "CursorMoved", "TextChanged" }, {
    group = group,
    buffer = buffer,
    callback = function()
      refresh(buffer)
    end,
  })
  refresh(buffer)
end, {})
