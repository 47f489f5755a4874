autocmd BufRead,BufNewFile *.pmodel,*.pplan setfiletype pmodel
