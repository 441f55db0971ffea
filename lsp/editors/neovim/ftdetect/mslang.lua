-- `.ms` is also groff's; the file type is mslang where an item of the language begins a line.
vim.filetype.add({
  extension = {
    ms = function(_, buffer)
      for _, line in ipairs(vim.api.nvim_buf_get_lines(buffer, 0, 200, false)) do
        if line:match("^##?%s") then
          return "mslang"
        end
        for _, word in ipairs({ "use", "program", "schedule", "rule", "fn", "space", "intrin", "target", "const", "test" }) do
          if line:match("^" .. word .. "%s") then
            return "mslang"
          end
        end
      end
      return "nroff"
    end,
  },
})
