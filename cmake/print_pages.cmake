# cmake -DPROGRAM=... -DNAME=... -DFOLDER=... [-DEMULATOR=...] -P print_pages.cmake: a program's manual page and
# completions, as the program itself prints them, under the names by which man and the shells find them.
file(MAKE_DIRECTORY ${FOLDER})
foreach(page "man=${NAME}.1" "bash=${NAME}" "zsh=_${NAME}" "fish=${NAME}.fish")
  string(REPLACE "=" ";" page ${page})
  list(GET page 0 format)
  list(GET page 1 file)
  execute_process(COMMAND ${EMULATOR} ${PROGRAM} --print ${format} OUTPUT_FILE ${FOLDER}/${file} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${NAME} --print ${format} failed: ${failed}")
  endif()
endforeach()
# man reads either; Debian's packages have them so.
execute_process(COMMAND gzip -9nkf ${FOLDER}/${NAME}.1 RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "gzip ${NAME}.1 failed: ${failed}")
endif()
