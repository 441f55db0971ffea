" `.ms` is also groff's: a file is groff if its first line that says anything begins with a request or a macro.
augroup mslangdetect
  autocmd!
  autocmd BufRead,BufNewFile *.ms call s:detect()
augroup END

function! s:detect() abort
  for line in getline(1, 200)
    if line =~# '^\s*$'
      continue
    endif
    if line =~# '^[.''\\]'
      setfiletype nroff
      return
    endif
    break
  endfor
  " `set`, not `setfiletype`: the editor's own rule for `*.ms` comes first.
  set filetype=mslang
endfunction
