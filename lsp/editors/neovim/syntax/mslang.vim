" Colours of mslang.
if exists('b:current_syntax')
  finish
endif

syntax keyword mslangDeclaration program schedule rule fn space intrin target const test use block
syntax keyword mslangConditional if else fork case when
syntax keyword mslangRepeat for while in
syntax keyword mslangStatement let alloc view attr init reads writes out inout desc impl return require check snapshot
syntax keyword mslangStatement where with as on
syntax keyword mslangOperatorWord and or not
syntax keyword mslangBoolean true false
syntax keyword mslangConstant inf nan machine
syntax keyword mslangType bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64

syntax match mslangNumber /\<\(0x\x\+\|\d[0-9_]*\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\(KiB\|MiB\|GiB\)\?\)\>/
syntax match mslangDistribution /\~\s*\h\w*/hs=s+1
syntax match mslangScope /@\s*\h[0-9A-Za-z_.]*/
syntax match mslangCall /\<\h\w*\ze(/
syntax match mslangName /`[^`]\+`/
syntax match mslangEscape /\\./ contained
syntax region mslangString start=/"/ skip=/\\./ end=/"/ oneline contains=mslangEscape
syntax region mslangString start=/"""/ end=/"""/
syntax keyword mslangTodo TODO FIXME NOTE contained
syntax match mslangComment /#.*$/ contains=mslangTodo,@Spell
syntax match mslangDocumentation /##.*$/ contains=@Spell

highlight default link mslangDeclaration Keyword
highlight default link mslangConditional Conditional
highlight default link mslangRepeat Repeat
highlight default link mslangStatement Statement
highlight default link mslangOperatorWord Operator
highlight default link mslangBoolean Boolean
highlight default link mslangConstant Constant
highlight default link mslangType Type
highlight default link mslangNumber Number
highlight default link mslangDistribution Function
highlight default link mslangScope StorageClass
highlight default link mslangCall Function
highlight default link mslangName Identifier
highlight default link mslangEscape SpecialChar
highlight default link mslangString String
highlight default link mslangTodo Todo
highlight default link mslangComment Comment
highlight default link mslangDocumentation SpecialComment

let b:current_syntax = 'mslang'
