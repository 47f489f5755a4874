# Writes OUTPUT, a C file that holds the bytes of INPUT as `const unsigned char NAME[]` and `const unsigned NAME_len`,
# which HEADER (frontend/std.h) declares.
if(NOT HEADER)
  set(HEADER frontend/std.h)
endif()
file(READ ${INPUT} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR len "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],0x[0-9a-f][0-9a-f],)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\nconst unsigned char ${NAME}[] = {\n${bytes}0};\nconst unsigned ${NAME}_len = ${len};\n")
