" A line stands one step deeper than the bracket that holds it.
if exists('b:did_indent')
  finish
endif
let b:did_indent = 1

setlocal indentexpr=MslangIndent()
setlocal indentkeys=0{,0},0),0],!^F,o,O
setlocal nosmartindent nocindent
let b:undo_indent = 'setlocal indentexpr< indentkeys< smartindent< cindent<'

if exists('*MslangIndent')
  finish
endif

function! MslangIndent() abort
  let above = prevnonblank(v:lnum - 1)
  if above == 0
    return 0
  endif
  let code = substitute(getline(above), '"\%(\\.\|[^"\\]\)*"\|#.*$', '', 'g')
  let depth = indent(above)
  if code =~# '[{(\[]\s*$'
    let depth += shiftwidth()
  endif
  if getline(v:lnum) =~# '^\s*[})\]]'
    let depth -= shiftwidth()
  endif
  return max([depth, 0])
endfunction
