-- Starts the language server for mslang buffers, and shows the program at the cursor.
--
-- `vim.g.mslang_command` is the server's command (default `{ "mslang", "lsp" }`); `vim.g.mslang_server = false` leaves
-- starting it to you. `:MslangProgram` opens a split that follows the cursor.
if vim.g.loaded_mslang then
  return
end
vim.g.loaded_mslang = true

local group = vim.api.nvim_create_augroup("mslang", { clear = true })

-- ------------------------------------------------------------------ the server
local function root_of(buffer)
  local file = vim.api.nvim_buf_get_name(buffer)
  local folder = vim.fn.fnamemodify(file, ":p:h")
  local marker = vim.fn.finddir(".git", folder .. ";")
  return marker ~= "" and vim.fn.fnamemodify(marker, ":p:h:h") or folder
end

-- Neovim 0.7 has neither `vim.lsp.start` nor the key for completion.
local clients = {}

local function start_0_7(config, buffer)
  config.on_attach = function(_, attached)
    vim.bo[attached].omnifunc = "v:lua.vim.lsp.omnifunc"
  end
  local id = clients[config.root_dir]
  if not (id and vim.lsp.get_client_by_id(id)) then
    id = vim.lsp.start_client(config)
    clients[config.root_dir] = id
  end
  if id then
    vim.lsp.buf_attach_client(buffer, id)
  end
end

if vim.g.mslang_server == false then
  -- The user starts it.
elseif vim.fn.has("nvim-0.11") == 1 then
  vim.lsp.enable("mslang")
else
  vim.api.nvim_create_autocmd("FileType", {
    group = group,
    pattern = "mslang",
    callback = function(event)
      local command = vim.g.mslang_command or { "mslang", "lsp" }
      local config = { name = "mslang", cmd = command, root_dir = root_of(event.buf) }
      if vim.lsp.start then
        vim.lsp.start(config)
      else
        start_0_7(config, event.buf)
      end
    end,
  })
end

-- ------------------------------------------------------------------ the program at the cursor
local view
local asked

local function client_of(buffer)
  local found
  if vim.lsp.get_clients then
    found = vim.lsp.get_clients({ bufnr = buffer, name = "mslang" })
  else
    found = vim.lsp.buf_get_clients(buffer)
  end
  for _, client in pairs(found) do
    if client.name == "mslang" then
      return client
    end
  end
end

local function request(client, params, handler, buffer)
  local done, id
  if vim.fn.has("nvim-0.11") == 1 then
    done, id = client:request("mslang/irAt", params, handler, buffer)
  else
    done, id = client.request("mslang/irAt", params, handler, buffer)
  end
  return done and id or nil
end

local function withdraw(client)
  if asked then
    if vim.fn.has("nvim-0.11") == 1 then
      client:cancel_request(asked)
    else
      client.cancel_request(asked)
    end
    asked = nil
  end
end

local function show(error, answer)
  if not (view and vim.api.nvim_buf_is_valid(view)) then
    return
  end
  local text = "# The cursor is not in a schedule."
  if error then
    text = "# " .. error.message:gsub("\n", "\n# ")
  elseif answer and answer ~= vim.NIL then
    local fault = answer.error ~= vim.NIL and answer.error
    local head = fault and ("# " .. fault:gsub("\n", "\n# ") .. "\n") or ""
    if answer.passes > 1 then
      head = head .. "# After the last of " .. answer.passes .. " passes of this statement.\n"
    end
    text = head .. answer.after .. "\n# The trace so far:\n" .. answer.trace
  end
  vim.bo[view].modifiable = true
  vim.api.nvim_buf_set_lines(view, 0, -1, false, vim.split(text, "\n"))
  vim.bo[view].modifiable = false
end

local function refresh(buffer)
  local client = client_of(buffer)
  if not client or vim.api.nvim_get_current_buf() ~= buffer then
    return
  end
  if not (view and vim.api.nvim_buf_is_valid(view)) then
    return
  end
  -- Only the program at the present place is wanted: an earlier question is withdrawn.
  withdraw(client)
  -- Columns are counted in the encoding that client and server agreed on, not in bytes.
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.seed = vim.g.mslang_seed or 0
  local id
  id = request(client, params, function(error, answer)
    if asked == id then
      asked = nil
      show(error, answer)
    end
  end, buffer)
  asked = id
end

vim.api.nvim_create_user_command("MslangProgram", function()
  local buffer = vim.api.nvim_get_current_buf()
  if not client_of(buffer) then
    vim.notify("mslang: no server is attached to this buffer", vim.log.levels.ERROR)
    return
  end
  if not (view and vim.api.nvim_buf_is_valid(view)) then
    view = vim.api.nvim_create_buf(false, true)
    vim.bo[view].bufhidden = "wipe"
    -- Colours only: the file type would start the server for it.
    vim.bo[view].syntax = "mslang"
    vim.cmd("rightbelow vsplit")
    vim.api.nvim_win_set_buf(0, view)
    vim.cmd("wincmd p")
  end
  vim.api.nvim_clear_autocmds({ group = group, buffer = buffer })
  vim.api.nvim_create_autocmd({ "CursorMoved", "CursorMovedI", "TextChanged", "TextChangedI" }, {
    group = group,
    buffer = buffer,
    callback = function()
      refresh(buffer)
    end,
  })
  refresh(buffer)
end, {})
