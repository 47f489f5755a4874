" Highlighting of pmodel programs and plans.
if exists("b:current_syntax")
  finish
endif

syn keyword pmodelPreProc pmodel import
syn keyword pmodelDeclaration axis const fn block model optimizer policy train plan
syn keyword pmodelStatement extends param state input in sub repeat return minimize report mesh
syn keyword pmodelStatement shard
syn keyword pmodelWordOperator or and not
syn keyword pmodelBuiltin abs cast_like ceil combine cos dispatch dot dot_like dropout erf exp f32
syn keyword pmodelBuiltin floor log max mean merge min onehot outer pos rename rsqrt sign sin
syn keyword pmodelBuiltin split sqrt stack sum tanh topk where
syn keyword pmodelConstant true false none
syn match pmodelNumber /\v<\d+(\.\d+)?([eE][+-]?\d+)?>/
syn match pmodelOperator /->\|+=\|\*\*\|[=!<>]=\|[-+*/%<>=~]/
syn region pmodelString start=/"/ end=/"/ oneline
syn match pmodelComment /#.*$/

hi def link pmodelPreProc PreProc
hi def link pmodelDeclaration Structure
hi def link pmodelStatement Statement
hi def link pmodelWordOperator Operator
hi def link pmodelBuiltin Function
hi def link pmodelConstant Boolean
hi def link pmodelNumber Number
hi def link pmodelOperator Operator
hi def link pmodelString String
hi def link pmodelComment Comment

let b:current_syntax = "pmodel"
