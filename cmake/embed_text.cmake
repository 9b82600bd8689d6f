# Run by the build: writes OUT, a C file with the texts FILES (separated by |, relative to ROOT) as byte arrays, each
# ended by a 0, and a table NAME of their paths and texts, ended by NULL. PATH=NAME: the table has that name in the
# path's place.
string(REPLACE "|" ";" files "${FILES}")
set(arrays "/* Made by cmake/embed_text.cmake. */\n#include \"ops/cuda/fused_texts.h\"\n")
set(table "")
set(number 0)
foreach(file ${files})
  string(REGEX REPLACE ".*=" "" name ${file})
  string(REGEX REPLACE "=.*" "" file ${file})
  file(READ ${ROOT}/${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char text_${number}[] = {${bytes}0};\n")
  string(APPEND table "    {\"${name}\", text_${number}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "${arrays}const rota_fused_text ${NAME}[] = {\n${table}    {0, 0},\n};\n")
